"""`schemas`, and the commands of `namespaces` about schemas. Source: Pulsar's `CmdSchemas`, `CmdNamespaces`."""

from pathlib import Path
from typing import Any, Final

import msgspec

from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.commands.table import (
    NAMESPACE,
    TOPIC,
    Flag,
    Kind,
    Resource,
    Session,
    Values,
    WrongUsageError,
    command,
    request,
    send,
)
from pulsar_barycenter.admin.routes import schemas as routes

MAX_FILE_BYTES: Final = 1 << 20
"""The most bytes of a file with a schema; brokers accept less."""
STRATEGIES: Final = (
    "FULL",
    "BACKWARD",
    "FORWARD",
    "UNDEFINED",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
    "ALWAYS_INCOMPATIBLE",
    "ALWAYS_COMPATIBLE",
)
_FILE: Final = Flag(
    "-f --filename", "file", 'A JSON file: {"type": "AVRO", "schema": "…", "properties": {}}.', required=True
)
_ENABLE: Final = Flag("-e --enable", "enable", "Switch it on.", Kind.SWITCH)
_DISABLE: Final = Flag("-d --disable", "disable", "Switch it off.", Kind.SWITCH)


async def _get(session: Session, values: Values) -> Any:
    if values["version"] is not None and values["all"]:
        raise WrongUsageError("give --version or --all-version, not both")
    if values["version"] is not None and values["version"] < 0:
        raise WrongUsageError(f"--version is {values['version']}: give a number from 0 on")
    if values["all"]:
        found = await send(session, routes.LIST_SCHEMAS, _of_schemas(values))
        return [_info(values, schema) for schema in found["getSchemaResponses"]]
    if values["version"] is not None:
        return _info(values, await send(session, routes.GET_SCHEMA_VERSION, _of_schemas(values)))
    schema = await send(session, routes.GET_SCHEMA, _of_schemas(values))
    return {"version": schema["version"], "schemaInfo": _info(values, schema)}


async def _upload(session: Session, values: Values) -> None:
    await send(session, routes.ADD_SCHEMA, _of_schemas(values), body=_read(values))


async def _delete(session: Session, values: Values) -> None:
    await send(session, routes.DELETE_SCHEMA, _of_schemas(values), query={"force": "force"})


async def _check(session: Session, values: Values) -> Any:
    return await send(session, routes.CHECK_SCHEMA, _of_schemas(values), body=_read(values))


def _of_schemas(values: Values) -> Values:
    """Return the values that the user gave, with `topic` split into namespace and topic. The path of a schema has no
    domain (persistent or not), so the domain is dropped.
    """
    namespace, _, topic = str(values["topic"]).partition("/")[2].rpartition("/")
    return {**values, "namespace": namespace, "topic": topic}


def _info(values: Values, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as pulsar-admin prints it: if its definition is valid JSON, `schema` is the parsed JSON, not a
    string.
    """
    return {
        "name": str(values["name"]).rpartition("/")[2],
        "schema": _json_or_text(schema["data"]),
        "type": schema["type"],
        "timestamp": schema["timestamp"],
        "properties": schema["properties"],
    }


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _read(values: Values) -> Any:
    """Return the content of the JSON file of --filename, as the body of a request.

    Raises:
        WrongUsageError: the file cannot be read, is too large, or is not JSON.
    """
    path = Path(values["file"])
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise WrongUsageError(f"--filename: {path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise WrongUsageError(f"--filename: {path} has more than {MAX_FILE_BYTES} bytes")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WrongUsageError(f"--filename: {path} is not JSON: {error}") from error


def _switched(values: Values) -> bool:
    if values["enable"] == values["disable"]:
        raise WrongUsageError("give either --enable or --disable")
    return bool(values["enable"])


SCHEMAS: Final = Resource(
    "schemas",
    "Schemas of topics.",
    (
        command(
            "get",
            "Show the latest version of a topic's schema.",
            _get,
            TOPIC,
            Flag("-v --version", "version", "Show this version.", Kind.NUMBER),
            Flag("-a --all-version", "all", "Show all versions.", Kind.SWITCH),
        ),
        command("upload", "Add a version of a topic's schema.", _upload, TOPIC, _FILE),
        command(
            "delete",
            "Delete the schema of a topic.",
            _delete,
            TOPIC,
            Flag("-f --force", "force", "Delete earlier versions too; numbers start at 0 again.", Kind.SWITCH),
        ),
        command(
            "compatibility",
            "Show whether a schema may be added to a topic.",
            _check,
            TOPIC,
            _FILE,
            aliases=("test-compatibility",),
        ),
    ),
)

NAMESPACE_SCHEMAS: Final = (
    command(
        "get-schema-compatibility-strategy",
        "Show how new schemas are compared.",
        request(routes.GET_STRATEGY),
        NAMESPACE,
    ),
    command(
        "set-schema-compatibility-strategy",
        "Set how new schemas are compared.",
        request(routes.SET_STRATEGY, body=lambda values: values["strategy"]),
        NAMESPACE,
        Flag("-c --compatibility", "strategy", "UNDEFINED: as configured.", choices=STRATEGIES, required=True),
    ),
    command(
        "get-is-allow-auto-update-schema",
        "Show whether clients may add versions of schemas.",
        request(routes.GET_AUTO_UPDATE),
        NAMESPACE,
        form=Form.VALUE,
    ),
    command(
        "set-is-allow-auto-update-schema",
        "Set whether clients may add versions of schemas.",
        request(routes.SET_AUTO_UPDATE, body=_switched),
        NAMESPACE,
        _ENABLE,
        _DISABLE,
    ),
    command(
        "get-schema-validation-enforce",
        "Show whether producers need a schema for topics with one.",
        request(routes.GET_ENFORCED, query={"applied": "applied"}),
        NAMESPACE,
        Flag("-ap --applied", "applied", "Include the broker's configuration.", Kind.SWITCH),
        form=Form.VALUE,
    ),
    command(
        "set-schema-validation-enforce",
        "Set whether producers need a schema for topics with one.",
        request(routes.SET_ENFORCED, body=_switched),
        NAMESPACE,
        _ENABLE,
        _DISABLE,
    ),
)
