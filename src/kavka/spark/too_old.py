"""The data source of a Spark that is too old: it says so."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.version import __version__

from kavka.spark.versions import check_version


class TooOldSource(DataSource):
    """What `format("kavka")` is there."""

    @classmethod
    def name(cls) -> str:
        """How Spark calls it."""
        return "kavka"

    def __init__(self, options: dict[str, str]) -> None:
        check_version(__version__)
        super().__init__(options)
