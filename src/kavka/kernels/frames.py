"""Frames, request headers, Produce and Fetch: the hot part of the protocol. The compiled kernels, or their twins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.kernels import COMPILED
from kavka.kernels.layout import FetchFields

if TYPE_CHECKING or not COMPILED:  # both have one interface; the twins' annotations describe it
    from kavka.kernels.plain_frames import parse_fetch, parse_header, parse_produce, parse_single, sole_client, split
    from kavka.kernels.plain_responses import encode_fetch_response, encode_produce_response, encode_produced
else:
    from kavka.kernels._frames import parse_fetch, parse_header, parse_produce, parse_single, sole_client, split
    from kavka.kernels._responses import encode_fetch_response, encode_produce_response, encode_produced

__all__ = [
    "FetchFields",
    "encode_fetch_response",
    "encode_produce_response",
    "encode_produced",
    "parse_fetch",
    "parse_header",
    "parse_produce",
    "parse_single",
    "sole_client",
    "split",
]
