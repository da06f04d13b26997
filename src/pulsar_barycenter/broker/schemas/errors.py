"""Errors that say why a schema is refused, and errors about the schemas of a topic.

SchemaError
├── InvalidSchemaError       the definition is not valid for its type, or exceeds a limit
├── IncompatibleSchemaError  the strategy of the topic does not allow the schema
└── SchemaNotFoundError      the topic has no schema, or not that version

Source: Pulsar's `InvalidSchemaDataException`, `IncompatibleSchemaException`, `NotExistSchemaException`.
"""

from pulsar_barycenter.broker.errors import ServiceError


class SchemaError(ServiceError):
    """The base class of errors about schemas."""


class InvalidSchemaError(SchemaError):
    pass


class IncompatibleSchemaError(SchemaError):
    pass


class SchemaNotFoundError(SchemaError):
    pass
