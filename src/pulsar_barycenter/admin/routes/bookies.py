"""Bookies: their racks and groups, and the groups of namespaces. Source: Pulsar's `Bookies` and `Namespaces`."""

from typing import Final

from pulsar_barycenter.admin.routes.rights import SUPER_USER
from pulsar_barycenter.admin.routes.route import TEXT, RouteGroup

BOOKIES: Final = RouteGroup("BookieRequests", "/admin/v2")

_OF_NAMESPACE: Final = "/namespaces/{tenant}/{namespace}/persistence/bookieAffinity"

LIST_BOOKIES: Final = BOOKIES.route(
    "GET", "/bookies/all", "names", SUPER_USER, "List the bookies that are registered; none without BookKeeper."
)

LIST_RACKS: Final = BOOKIES.route(
    "GET", "/bookies/racks-info", "racks", SUPER_USER, "Show the rack of each bookie, by group and id."
)

GET_RACK: Final = BOOKIES.route("GET", "/bookies/racks-info/{bookie}", "rack", SUPER_USER, "Show the rack of a bookie.")

SET_RACK: Final = BOOKIES.route(
    "POST",
    "/bookies/racks-info/{bookie}",
    "set_rack",
    SUPER_USER,
    "Set the rack of a bookie and put it into `group`; ledgers are spread over racks.",
    body="BookieInfo",
    query={"group": TEXT},
    by_leader=True,
)

DELETE_RACK: Final = BOOKIES.route(
    "DELETE",
    "/bookies/racks-info/{bookie}",
    "delete_rack",
    SUPER_USER,
    "Remove the rack and the group of a bookie.",
    by_leader=True,
)

GET_AFFINITY: Final = BOOKIES.route(
    "GET",
    _OF_NAMESPACE,
    "affinity",
    SUPER_USER,
    "Show the groups of bookies on which the ledgers of a namespace are; 204 if they may be on all.",
)

SET_AFFINITY: Final = BOOKIES.route(
    "POST",
    _OF_NAMESPACE,
    "set_affinity",
    SUPER_USER,
    "Set the groups of bookies on which new ledgers of a namespace are, once its topics are loaded anew.",
    body="BookieAffinityGroup",
    by_leader=True,
)

DELETE_AFFINITY: Final = BOOKIES.route(
    "DELETE",
    _OF_NAMESPACE,
    "delete_affinity",
    SUPER_USER,
    "Let new ledgers of a namespace be on all bookies again.",
    by_leader=True,
)
