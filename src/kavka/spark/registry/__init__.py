"""Formats by registry: the schema of each value is the one whose id stands in front of it.

`access` reaches the registry, `languages` makes of its schemas what readers and writers use, `json_schema` makes
columns of JSON schemas, `reading` decodes values and `writing` makes them. Only the first is imported by queries that
name no registry.
"""
