"""The schema registry: subjects, versions and ids, decided here and remembered by the topic `_schemas`."""
