"""HTTP look-up. Source: Pulsar's `TopicLookup`, v2 and v1."""

from typing import Final

from pulsar_barycenter.admin.routes.rights import OnLookedUpTopic
from pulsar_barycenter.admin.routes.route import FLAG, TEXT, RouteGroup

_BROKER: Final = "Name the broker that serves the topic, or redirect to a broker that can answer."
_BUNDLE: Final = "Name the hash range of the topic's bundle; any broker answers."
_QUERY: Final = {"authoritative": FLAG, "listenerName": TEXT}

LOOKUP: Final = RouteGroup("Lookup", "/lookup/v2")

LOOK_UP: Final = LOOKUP.route(
    "GET",
    "/topic/{domain}/{tenant}/{namespace}/{topic:[^/]+}",
    "owner",
    OnLookedUpTopic(),
    _BROKER,
    query=_QUERY,
)

GET_BUNDLE: Final = LOOKUP.route(
    "GET",
    "/topic/{domain}/{tenant}/{namespace}/{topic:[^/]+}/bundle",
    "bundle",
    OnLookedUpTopic(),
    _BUNDLE,
)

LOOKUP.route(
    "GET",
    "/destination/{domain}/{tenant}/{cluster}/{namespace}/{topic:[^/]+}",
    "owner",
    OnLookedUpTopic(),
    _BROKER,
    query=_QUERY,
    without_command="for names of Pulsar 1",
)

LOOKUP.route(
    "GET",
    "/destination/{domain}/{tenant}/{cluster}/{namespace}/{topic:[^/]+}/bundle",
    "bundle",
    OnLookedUpTopic(),
    _BUNDLE,
    without_command="for names of Pulsar 1",
)
