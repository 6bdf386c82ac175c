"""Found by Spark, which imports every package whose name begins with `pyspark_`: `spark.read.format("kavka")`."""

from kavka.spark.datasource import KavkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
