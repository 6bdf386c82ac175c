"""Topics in Spark: the data source `format("kavka")`, lake tables and pipelines.

Rule: importing this package, or the modules an executor needs, does not start Spark and needs no Java.
"""
