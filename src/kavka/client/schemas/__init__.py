"""Records whose schemas are in a registry: Avro, JSON Schema and Protobuf, with classes as schemas.

Each of `Avro`, `JsonSchema` and `Protobuf` is for `TypedProducer` and `TypedConsumer` and needs its library, which
`pip install 'kavka[schemas]'` brings. Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kavka.client.schemas.avro import Avro
    from kavka.client.schemas.json_schema import JsonSchema
    from kavka.client.schemas.models import Precision
    from kavka.client.schemas.protobuf import Protobuf
    from kavka.client.schemas.read import AnySchema
    from kavka.client.schemas.subjects import record_name, topic_name, topic_record_name

__all__ = [
    "AnySchema",
    "Avro",
    "JsonSchema",
    "Precision",
    "Protobuf",
    "record_name",
    "topic_name",
    "topic_record_name",
]

_HOME_OF = {
    "AnySchema": "read",
    "Avro": "avro",
    "JsonSchema": "json_schema",
    "Precision": "models",
    "Protobuf": "protobuf",
    "record_name": "subjects",
    "topic_name": "subjects",
    "topic_record_name": "subjects",
}
_NEEDED = {"fastavro", "jsonschema", "referencing", "google"}


def __getattr__(name: str) -> Any:
    """The public name, from the module that it is at home in; raises ImportError if its library is missing."""
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] in _NEEDED:
            raise ImportError(f"{name} needs {error.name}: pip install 'kavka[schemas]'", name=error.name) from None
        raise
    return value


def __dir__() -> list[str]:
    """What can be imported from here."""
    return sorted({*globals(), *__all__})
