"""Schemas of topics, and the rules of a namespace for them. Source: Pulsar's `SchemasResource`, `Namespaces`."""

from typing import Final

from pulsar_barycenter.admin.operations import TopicOperation
from pulsar_barycenter.admin.routes.rights import OnTopic, reads, writes
from pulsar_barycenter.admin.routes.route import FLAG, RouteGroup

_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_ANY_BROKER: Final = {"authoritative": FLAG}

SCHEMAS: Final = RouteGroup("Schemas", "/admin/v2/schemas/{tenant}/{namespace}/{topic:[^/]+}")

GET_SCHEMA: Final = SCHEMAS.route(
    "GET",
    "/schema",
    "latest",
    OnTopic(TopicOperation.GET_METADATA),
    "Show the latest version of a topic's schema; partitions have that of their topic.",
    query=_ANY_BROKER,
)

GET_SCHEMA_VERSION: Final = SCHEMAS.route(
    "GET",
    "/schema/{version:[0-9]+}",
    "version",
    OnTopic(TopicOperation.GET_METADATA),
    "Show a version of a topic's schema.",
    query=_ANY_BROKER,
)

LIST_SCHEMAS: Final = SCHEMAS.route(
    "GET",
    "/schemas",
    "versions",
    OnTopic(TopicOperation.GET_METADATA),
    "Show all versions of a topic's schema since the last deletion, oldest first.",
    query=_ANY_BROKER,
)

GET_SCHEMA_METADATA: Final = SCHEMAS.route(
    "GET",
    "/metadata",
    "metadata",
    OnTopic(TopicOperation.GET_METADATA),
    "Show the numbers of a schema's versions; the ledgers are -1, because versions are in the metadata store.",
    query=_ANY_BROKER,
    without_command="pulsar-admin sends it",
)

ADD_SCHEMA: Final = SCHEMAS.route(
    "POST",
    "/schema",
    "add",
    OnTopic(TopicOperation.PRODUCE),
    "Add a version, or find the one that is the same; 409 if the strategy of the topic does not allow it.",
    body="PostSchemaPayload",
    query=_ANY_BROKER,
)

DELETE_SCHEMA: Final = SCHEMAS.route(
    "DELETE",
    "/schema",
    "delete",
    OnTopic(TopicOperation.ADMINISTER_SCHEMA),
    "Delete a topic's schema; with `force` also its earlier versions, so that numbers start at 0 again.",
    query={"force": FLAG, **_ANY_BROKER},
)

CHECK_SCHEMA: Final = SCHEMAS.route(
    "POST",
    "/compatibility",
    "check",
    OnTopic(TopicOperation.ADMINISTER_SCHEMA),
    "Show whether the strategy of the topic allows a schema, and why not.",
    body="PostSchemaPayload",
    query=_ANY_BROKER,
)

FIND_SCHEMA_VERSION: Final = SCHEMAS.route(
    "POST",
    "/version",
    "find",
    OnTopic(TopicOperation.GET_METADATA),
    "Show which version is the same as a schema; -1 if none is.",
    body="PostSchemaPayload",
    query=_ANY_BROKER,
    without_command="only Pulsar's Java client sends it",
)


SCHEMA_POLICIES: Final = RouteGroup("SchemaPolicies", _NAMESPACE)

GET_STRATEGY: Final = SCHEMA_POLICIES.route(
    "GET",
    "/schemaCompatibilityStrategy",
    "strategy",
    reads("SCHEMA_COMPATIBILITY_STRATEGY"),
    "Show how new schemas are compared in a namespace; UNDEFINED if the configuration decides.",
)

SET_STRATEGY: Final = SCHEMA_POLICIES.route(
    "PUT",
    "/schemaCompatibilityStrategy",
    "set_strategy",
    writes("SCHEMA_COMPATIBILITY_STRATEGY"),
    "Set how new schemas are compared in a namespace; with UNDEFINED the configuration decides again.",
    body=str,
    by_leader=True,
)

GET_OLD_STRATEGY: Final = SCHEMA_POLICIES.route(
    "GET",
    "/schemaAutoUpdateCompatibilityStrategy",
    "old_strategy",
    reads("SCHEMA_COMPATIBILITY_STRATEGY"),
    "Show the strategy by its old name, which counts where neither namespace nor configuration has a new one.",
    without_command="it is deprecated",
)

SET_OLD_STRATEGY: Final = SCHEMA_POLICIES.route(
    "PUT",
    "/schemaAutoUpdateCompatibilityStrategy",
    "set_old_strategy",
    writes("SCHEMA_COMPATIBILITY_STRATEGY"),
    "Set the strategy by its old name, such as `Full`.",
    body=str,
    by_leader=True,
    without_command="it is deprecated",
)

GET_AUTO_UPDATE: Final = SCHEMA_POLICIES.route(
    "GET",
    "/isAllowAutoUpdateSchema",
    "auto_update",
    reads("SCHEMA_COMPATIBILITY_STRATEGY"),
    "Show whether clients may add versions in a namespace: its own value, else the configuration's.",
)

SET_AUTO_UPDATE: Final = SCHEMA_POLICIES.route(
    "POST",
    "/isAllowAutoUpdateSchema",
    "set_auto_update",
    writes("SCHEMA_COMPATIBILITY_STRATEGY"),
    "Set whether clients may add versions in a namespace; the body is true or false.",
    body=bool,
    by_leader=True,
)

GET_ENFORCED: Final = SCHEMA_POLICIES.route(
    "GET",
    "/schemaValidationEnforced",
    "enforced",
    reads("SCHEMA_COMPATIBILITY_STRATEGY"),
    "Show whether producers need a schema for a topic with one; with `applied` also by the configuration.",
    query={"applied": FLAG},
)

SET_ENFORCED: Final = SCHEMA_POLICIES.route(
    "POST",
    "/schemaValidationEnforced",
    "set_enforced",
    writes("SCHEMA_COMPATIBILITY_STRATEGY"),
    "Set whether producers need a schema for a topic with one; the body is true or false.",
    body=bool,
    by_leader=True,
)
