"""Pipelines: a folder with a YAML spec and Python functions, run continuously or once, here or on a cluster."""
