"""Found by Spark, which imports every package whose name begins with `pyspark_`: `spark.read.format("kavka")`."""

from pyspark.sql.datasource import DataSource
from pyspark.version import __version__ as spark_version

from kavka.spark.versions import SparkVersionError, check_version

__all__ = ["DefaultSource"]


def _source() -> type[DataSource]:
    try:
        check_version(spark_version)
    except SparkVersionError:
        # An error here would be a source that Spark does not find; this one is found, and says why it does not work.
        from kavka.spark.too_old import TooOldSource

        return TooOldSource
    from kavka.spark.datasource import KavkaDataSource

    return KavkaDataSource


DefaultSource = _source()
