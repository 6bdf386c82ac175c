"""What a Python worker of Spark's does between tasks."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
{imports}
from kavka.spark.workers import settle
before = gc.get_freeze_count()
settle()
frozen = gc.get_freeze_count()
class Node: pass
node = Node(); node.itself = node
del node
settle()
print(frozen > before, gc.get_freeze_count() == frozen, gc.collect() > 0)
"""


@pytest.mark.parametrize(("imports", "said"), [("import pyspark.worker", "True True True"), ("", "False True True")])
def test_what_a_worker_has_loaded_is_left_out_of_garbage_collection_once(imports: str, said: str) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    program = PROGRAM.format(imports=imports)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == said, done.stderr
