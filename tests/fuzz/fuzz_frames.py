"""Coverage-guided fuzzing of frames and batches: `python tests/fuzz/fuzz_frames.py -max_total_time=60 [corpus]`.

The plain twins are instrumented, so the fuzzer sees their branches; the compiled kernels get the same input and must
come to the same result. Arguments are libFuzzer's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

try:
    import atheris
except ImportError:
    sys.exit("fuzz_frames.py needs atheris: pip install atheris (Linux and macOS, CPython)")

from crc32c import crc32c

with atheris.instrument_imports(include=["kavka"]):
    from kavka.kernels import COMPILED, plain_batches, plain_frames
    from kavka.model.errors import KafkaError
    from kavka.records import validate as validation

if COMPILED:
    from kavka.kernels import _batches, _frames
else:
    _batches, _frames = plain_batches, plain_frames

LIMIT = 1 << 20


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """What a call returns, or the protocol's error that it ends with; any other error is a finding."""
    try:
        return plainly(function(*args))
    except KafkaError as error:
        return type(error)


def plainly(value: Any) -> Any:
    """A value without the types in which the twins may differ."""
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    if hasattr(value, "fields"):
        return value.fields()
    if isinstance(value, tuple):
        return tuple(plainly(item) for item in value)
    if isinstance(value, list):
        return [plainly(item) for item in value]
    return value


def same(name: str, compiled: Any, plain: Any, *args: Any) -> None:
    """Both twins, one outcome."""
    ours, theirs = outcome(getattr(compiled, name), *args), outcome(getattr(plain, name), *args)
    if ours != theirs:
        raise AssertionError(f"{name}{args!r}: compiled {ours!r}, plain {theirs!r}")


def fuzz_frames(data: bytes, choice: int) -> None:
    """The parsers of requests."""
    size = len(data)
    same("split", _frames, plain_frames, data, 0, size, LIMIT)
    same("parse_header", _frames, plain_frames, data, 0, size)
    same("parse_produce", _frames, plain_frames, data, 0, size, 3 + choice % 11)
    same("parse_single", _frames, plain_frames, data, 0, size, 3 + choice % 11)
    same("parse_fetch", _frames, plain_frames, data, 0, size, 4 + choice % 15)


def fuzz_batches(data: bytes, choice: int) -> None:
    """The headers of batches and, with the CRC made right, what is behind them."""
    same("scan_prefix", _batches, plain_batches, data, 0, -1, bool(choice & 1))
    if len(data) < 61:
        return
    sealed = bytearray(data)
    if choice & 2:  # a header that a broker accepts
        sealed[:8] = bytes(8)
        sealed[21:23] = bytes([0, sealed[22] % 5])
        sealed[23:27] = (sealed[60] % 8).to_bytes(4, "big")
        sealed[57:61] = (sealed[60] % 8 + 1).to_bytes(4, "big")
    sealed[8:12] = (len(data) - 12).to_bytes(4, "big")
    sealed[16] = 2
    sealed[17:21] = crc32c(bytes(sealed[21:])).to_bytes(4, "big")
    data = bytes(sealed)
    same("scan", _batches, plain_batches, data)
    same("accept", _batches, plain_batches, data)
    plain, compiled = plain_batches.scan(data)[0], _batches.scan(data)[0]
    ours = outcome(_batches.read_records, data, compiled, 61, len(data))
    if ours != outcome(plain_batches.read_records, data, plain, 61, len(data)):
        raise AssertionError(f"read_records: the twins differ on {data!r}")
    outcome(validate, data, bool(choice & 4), ("producer", "gzip", "lz4", "uncompressed")[choice >> 3 & 3])


def validate(data: bytes, compact: bool, compression_type: str) -> Any:
    """As a broker would."""
    before = 5 if compact else 1 << 62
    rules = validation.ProduceRules(
        LIMIT, compression_type=compression_type, compact=compact, before_max_ms=before, after_max_ms=100
    )
    return validation.validate(data, rules, 10)


def one_input(data: bytes) -> None:
    """What the fuzzer calls: the first byte chooses, the rest is fed."""
    if data:
        fuzz_frames(data[1:], data[0])
        fuzz_batches(data[1:], data[0])


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
