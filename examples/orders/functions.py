"""The transformations of the orders pipeline."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (everybody calls it so)

ORDER = "id BIGINT, customer STRING, country STRING, amount DOUBLE, at TIMESTAMP"


def kept(orders: DataFrame) -> DataFrame:
    """What the table holds: the order and where it comes from."""
    return orders.select("id", "customer", "country", "amount", "at", "_partition", "_offset")


def revenue(records: DataFrame) -> DataFrame:
    """Revenue by windows of five minutes; an order may come ten minutes late, after that its window is closed."""
    orders = records.select(F.from_json(F.col("value").cast("string"), ORDER).alias("order")).select("order.*")
    sums = (
        orders.where("id is not null and amount is not null and at is not null")
        .withWatermark("at", "10 minutes")
        .groupBy(F.window("at", "5 minutes"))
        .agg(F.sum("amount").alias("revenue"), F.count("*").alias("orders"))
    )
    return sums.select(
        F.date_format("window.start", "HH:mm").alias("key"), F.col("window.start").alias("start"), "revenue", "orders"
    )


def windows(revenue: DataFrame) -> DataFrame:
    """What the table of windows holds."""
    return revenue.select("start", "revenue", "orders")


def by_customer(changes: DataFrame) -> DataFrame:
    """Whatever the schema says of a customer, by the record's key: a deletion has nothing else."""
    said = [name for name in changes.columns if not name.startswith("_")]
    return changes.select(F.col("_key").cast("string").alias("customer"), *said, "_offset", "_deleted")
