"""A client of a Spark Connect server: a batch read, a stream into another topic, and a write, all by `format("kavka")`.

Arguments: the server's URL, bootstrap, source topic, target topic, checkpoint folder. Prints what it has read.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main(url: str, bootstrap: str, source: str, target: str, folder: str) -> None:
    """Run the three jobs."""
    spark = SparkSession.builder.remote(url).getOrCreate()
    given = {"kafka.bootstrap.servers": bootstrap}
    read = spark.read.format("kavka").options(**given).option("subscribe", source).load()
    numbers = sorted(int(row.number) for row in read.selectExpr("string(value) AS number").collect())
    stream = spark.readStream.format("kavka").options(**given).option("subscribe", source)
    query = (
        stream.option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "60")
        .load()
        .select("key", "value")
        .writeStream.format("kavka")
        .options(**given)
        .option("topic", target)
        .option("checkpointLocation", folder)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    row = spark.sql("SELECT 'more' AS key, '1000' AS value")
    row.write.format("kavka").options(**given).option("topic", target).mode("append").save()
    sys.stdout.write(json.dumps({"read": numbers, "connect": "connect" in type(spark).__module__}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
