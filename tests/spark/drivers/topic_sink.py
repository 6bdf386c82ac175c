"""A driver that a test kills: one topic into another, exactly once, batch by batch.

Arguments: bootstrap, source topic, target topic, folder, master. Runs until everything that was there is read.
"""

from __future__ import annotations

import sys

from kavka.spark.session import start

CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "8",
}


def main(bootstrap: str, source: str, target: str, folder: str, master: str) -> None:
    """Run the query to its end."""
    spark = start("topic-sink", master=master, conf=CONF)
    frame = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "200")
        .load()
    )
    query = (
        frame.select("key", "value")
        .writeStream.format("kavka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("delivery", "exactly-once")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
