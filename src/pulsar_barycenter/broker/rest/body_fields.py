"""Refuses bodies with fields that this broker does not use, so that no request succeeds only in part.

Pulsar's tools write every field of a Java class, also those that the user did not set. So an unused field is accepted
if its value means "not set": null, false, 0, a blank text, an empty list or object, or the default of Pulsar's class.

`NOT_DONE` has the fields that Barycenter stores, because Pulsar's brokers may have written them into a shared store,
but does not act on. A request that sets one of them is refused.

Source: Pulsar ignores unknown fields (`ObjectMapperFactory` switches FAIL_ON_UNKNOWN_PROPERTIES off).
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import inspect

from pulsar_barycenter.broker.namespaces.policies import ClusterData, Policies
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.load.policies import AutoFailoverData

NOT_DONE: Final[Mapping[type, frozenset[str]]] = {
    Policies: frozenset(
        {
            "clusterDispatchRate",
            "latency_stats_sample_rate",
            "deleted",
            "offload_policies",
            "migrated",
            "schema_auto_update_compatibility_strategy",
        }
    ),
}


class _AuthPolicies(msgspec.Struct):
    namespace_auth: Any = None
    destination_auth: Any = None
    subscription_auth_roles: Any = None


class _FailoverParameters(msgspec.Struct):
    min_limit: Any = None
    usage_threshold: Any = None


_OPEN_OBJECTS: Final[Mapping[tuple[type, str], type]] = {
    (Policies, "auth_policies"): _AuthPolicies,
    (AutoFailoverData, "parameters"): _FailoverParameters,
}
"""Fields that are stored unchanged; for each, the type with those subfields that this broker uses."""

PULSAR_DEFAULTS: Final[Mapping[type, Mapping[str, tuple[Any, ...]]]] = {
    Policies: {
        "schema_auto_update_compatibility_strategy": ("Full",),
        "offload_threshold": (-1,),
        "offload_threshold_in_seconds": (-1,),
        "is_allow_auto_update_schema_with_replicator": (True,),
    },
    ClusterData: {
        "brokerClientTlsTrustStoreType": ("JKS",),
        "brokerClientTlsKeyStoreType": ("JKS",),
        "brokerClientSslFactoryPlugin": ("org.apache.pulsar.common.util.DefaultPulsarSslFactory",),
    },
}
"""Values of fields that mean "not set" although they are not empty: the defaults of Pulsar's classes."""

DERIVED: Final[Mapping[type, frozenset[str]]] = {Policies: frozenset({"clusterThatCanDeleteNamespace"})}
"""Fields that Pulsar's classes derive from others when they are encoded (a getter without a field)."""

_MAX_NAMED: Final = 10
"""The maximum number of fields that an error lists."""
_MAX_SHOWN: Final = 60
"""The maximum number of characters of a value that an error shows."""


def require_known_fields(value: Any, kind: Any) -> None:
    """Check that a decoded body has no field that this broker would ignore. `kind` is the type of which the body is.

    Raises:
        RestError: 400, with the paths of the fields to leave out, such as `bundles.count`.
    """
    found = list(_unread(value, _type_info(kind), ""))
    if found:
        shown = ", ".join(f"{path} = {_short(unread)}" for path, unread in found[:_MAX_NAMED])
        more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
        raise RestError(
            400, f"The request body has fields that this broker does not use: {shown}{more}. Leave them out."
        )


@lru_cache(maxsize=128)
def _type_info(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _unread(value: Any, expected: inspect.Type, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(expected, inspect.UnionType):
        for member in expected.types:
            yield from _unread(value, member, path)
    elif isinstance(expected, inspect.StructType) and isinstance(value, dict):
        yield from _of_object(value, expected, path)
    elif isinstance(expected, inspect.DictType) and isinstance(value, dict):
        for name, item in value.items():
            yield from _unread(item, expected.value_type, f"{path}{name}.")
    elif isinstance(expected, inspect.ListType | inspect.VarTupleType) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unread(item, expected.item_type, f"{path.removesuffix('.')}[{index}].")


def _of_object(value: dict[str, Any], expected: inspect.StructType, path: str) -> Iterator[tuple[str, Any]]:
    fields = {field.encode_name: field for field in expected.fields}
    not_done = NOT_DONE.get(expected.cls, frozenset())
    defaults, derived = PULSAR_DEFAULTS.get(expected.cls, {}), DERIVED.get(expected.cls, frozenset())
    for name, item in value.items():
        if name in derived:
            continue
        if name in fields and name not in not_done:
            read_as = _OPEN_OBJECTS.get((expected.cls, name))
            yield from _unread(item, fields[name].type if read_as is None else _type_info(read_as), f"{path}{name}.")
        elif item and item not in defaults.get(name, ()):
            yield f"{path}{name}", item


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
