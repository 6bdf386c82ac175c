"""A web application that writes orders to a topic and counts what comes back; its clients live as long as it does.

pip install fastapi uvicorn
uvicorn fastapi_app:app
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from kavka.client import GroupConsumer, Producer

BOOTSTRAP = os.environ.get("KAVKA_BOOTSTRAP", "127.0.0.1:9092")
TOPIC = "web-orders"


async def count(app: FastAPI) -> None:
    """Count orders as they come, until the application ends."""
    async with GroupConsumer(BOOTSTRAP, group="web-counter", topics=[TOPIC], start="start") as orders:
        async for _ in orders:
            app.state.seen += 1


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the producer before the first request, and close it after the last: then everything is sent."""
    app.state.seen = 0
    async with Producer(BOOTSTRAP) as app.state.producer:
        counting = asyncio.create_task(count(app))
        yield
        counting.cancel()
        await asyncio.gather(counting, return_exceptions=True)


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{customer}")
async def order(customer: str, item: str) -> dict[str, int]:
    """Write an order; the answer comes when the cluster has it."""
    delivered = await app.state.producer.send_and_wait(TOPIC, item.encode(), key=customer.encode())
    return {"partition": delivered.partition, "offset": delivered.offset}


@app.get("/seen")
async def seen() -> int:
    """How many orders the consumer has seen."""
    return int(app.state.seen)
