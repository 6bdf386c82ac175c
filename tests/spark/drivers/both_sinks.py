"""A driver that a test kills: one topic into a Delta table and into another topic, batch by batch.

Arguments: bootstrap, source topic, target topic, folder, master; then what else is to travel with the job.
Runs until everything that was there is read.
"""

from __future__ import annotations

import sys

from kavka.spark.lake import TableSpec
from kavka.spark.lake.feed import feed
from kavka.spark.session import start

LOOPBACK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
}


def main(bootstrap: str, source: str, target: str, folder: str, master: str, *ship: str) -> None:
    """Run both queries to their end."""
    spark = start("both-sinks", master=master, conf=LOOPBACK, ship=ship)
    frame = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "200")
        .load()
    )
    numbers = frame.selectExpr("cast(cast(value as string) as bigint) as number", "partition", "offset")
    table = (
        numbers.writeStream.foreachBatch(feed(TableSpec(f"{folder}/table", "delta")))
        .option("checkpointLocation", f"{folder}/table-checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    topic = (
        frame.select("key", "value")
        .writeStream.format("kavka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", f"{folder}/topic-checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    table.awaitTermination()
    topic.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
