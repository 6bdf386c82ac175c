"""The compiled kernel has its twin's types."""

from kavka.kernels.plain_responses import encode_fetch_response as encode_fetch_response
from kavka.kernels.plain_responses import encode_produce_response as encode_produce_response
from kavka.kernels.plain_responses import encode_produced as encode_produced
