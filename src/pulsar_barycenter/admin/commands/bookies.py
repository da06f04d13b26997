"""`bookies`, and the commands of `namespaces` about groups of bookies.

Source: Pulsar's `CmdBookies`, `CmdNamespaces`.
"""

from typing import Any, Final

from pulsar_barycenter.admin.commands.table import NAMESPACE, Flag, Resource, Values, command, request
from pulsar_barycenter.admin.routes import bookies as routes

_BOOKIE: Final = Flag("-b --bookie", "bookie", "The id of the bookie, HOST:PORT.", required=True)


def _info(values: Values) -> dict[str, Any]:
    return {name: values[name] for name in ("rack", "hostname") if values[name] is not None}


def _groups(values: Values) -> dict[str, Any]:
    groups = {"bookkeeperAffinityGroupPrimary": values["primary"]}
    if values["secondary"] is not None:
        groups["bookkeeperAffinityGroupSecondary"] = values["secondary"]
    return groups


BOOKIES: Final = Resource(
    "bookies",
    "Bookies of BookKeeper: their racks and groups.",
    (
        command("list-bookies", "List the bookies that are registered.", request(routes.LIST_BOOKIES)),
        command("racks-placement", "Show the racks of all bookies by group.", request(routes.LIST_RACKS)),
        command("get-bookie-rack", "Show the rack of a bookie.", request(routes.GET_RACK), _BOOKIE),
        command(
            "set-bookie-rack",
            "Set the rack of a bookie, and its group.",
            request(routes.SET_RACK, query={"group": "group"}, body=_info),
            Flag("-g --group", "group", "The group of the bookie.", default="default"),
            _BOOKIE,
            Flag("-r --rack", "rack", "The rack, such as /rack1.", required=True),
            Flag("-hn --hostname", "hostname", "The name of its machine."),
        ),
        command("delete-bookie-rack", "Remove the rack of a bookie.", request(routes.DELETE_RACK), _BOOKIE),
    ),
)

NAMESPACE_BOOKIES: Final = (
    command(
        "set-bookie-affinity-group",
        "Set the groups of bookies on which ledgers are.",
        request(routes.SET_AFFINITY, body=_groups),
        NAMESPACE,
        Flag("-pg --primary-group", "primary", "Groups of bookies, separated by commas.", required=True),
        Flag("-sg --secondary-group", "secondary", "Groups to use if the primary ones have too few bookies."),
    ),
    command(
        "get-bookie-affinity-group",
        "Show the groups of bookies on which ledgers are.",
        request(routes.GET_AFFINITY),
        NAMESPACE,
    ),
    command(
        "delete-bookie-affinity-group",
        "Let ledgers be on all bookies again.",
        request(routes.DELETE_AFFINITY),
        NAMESPACE,
    ),
)
