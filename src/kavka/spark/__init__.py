"""Topics in Spark: the data source `format("kavka")`, lake tables and pipelines.

Rule: importing this package, or the modules an executor needs, does not start Spark and needs no Java.
"""

import os
import sys

# Spark looks for data sources with the first python3 of the PATH, which need not be the one that has this package.
# A driver that spark-submit started has its JVM already, and executors whose Python is elsewhere.
if "PYSPARK_GATEWAY_PORT" not in os.environ and "PYSPARK_DRIVER_PYTHON" not in os.environ:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
