"""A job with the UI and the event log on: reads and writes a secured topic, and prints what people are shown of it."""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any

import kavka.spark
from kavka.spark.session import start

assert kavka.spark


def shown(spark: Any) -> str:
    """The pages and the REST answers of the UI that have to do with queries and settings."""
    base = spark.sparkContext.uiWebUrl
    application = spark.sparkContext.applicationId
    pages = ["environment/", "SQL/", "jobs/", "stages/", "StreamingQuery/"]
    pages += [f"api/v1/applications/{application}/{name}" for name in ("sql?details=true", "environment", "jobs")]
    pages += [f"SQL/execution/?id={number}" for number in range(3)]
    return "".join(urllib.request.urlopen(f"{base}/{page}", timeout=60).read().decode() for page in pages)


def main(options: dict[str, str], plain: dict[str, str], folder: str) -> None:
    conf = {"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.eventLog.enabled": "true"}
    conf |= {"spark.eventLog.dir": f"file://{folder}/events", "spark.eventLog.compress": "false"}
    spark = start("secured", master="local[1]", conf=conf)
    spark.sparkContext.setLogLevel("INFO")
    frame = spark.readStream.format("kavka").options(**options).option("subscribe", "in")
    query = (
        frame.option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.format("kavka")
        .options(**plain)
        .option("topic", "out")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    sys.stdout.write(f"{query.lastProgress}\n")
    query.explain(True)
    batch = spark.read.format("kavka").options(**options).option("subscribe", "in").load()
    batch.explain("formatted")
    sys.stdout.write(f"read {batch.count()}\n{shown(spark)}\n")
    spark.stop()


main(json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3])
