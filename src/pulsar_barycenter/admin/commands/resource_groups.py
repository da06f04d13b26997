"""`resourcegroups`, and the commands of `namespaces` about them.

Source: Pulsar's `CmdResourceGroups`, `CmdNamespaces`.
"""

from typing import Any, Final

from pulsar_barycenter.admin.commands.table import NAMESPACE, Argument, Flag, Kind, Resource, Values, command, request
from pulsar_barycenter.admin.routes import resource_groups as routes

_GROUP: Final = Argument("group")
_NO_LIMIT: Final = "; -1 means no limit."
_RATES: Final = (
    Flag("-mp --msg-publish-rate", "publishRateInMsgs", f"Messages accepted in a second{_NO_LIMIT}", Kind.NUMBER),
    Flag("-bp --byte-publish-rate", "publishRateInBytes", f"Bytes accepted in a second{_NO_LIMIT}", Kind.NUMBER),
    Flag("-md --msg-dispatch-rate", "dispatchRateInMsgs", "Messages delivered in a second; no effect.", Kind.NUMBER),
    Flag("-bd --byte-dispatch-rate", "dispatchRateInBytes", "Bytes delivered in a second; no effect.", Kind.NUMBER),
)


def _rates(values: Values) -> dict[str, Any]:
    return {flag.key: values[flag.key] for flag in _RATES if values[flag.key] is not None}


RESOURCE_GROUPS: Final = Resource(
    "resourcegroups",
    "Resource groups: rates that the topics of several namespaces share.",
    (
        command("list", "List the resource groups.", request(routes.LIST_GROUPS)),
        command("get", "Show the rates of a resource group.", request(routes.GET_GROUP), _GROUP),
        command("create", "Create a resource group.", request(routes.PUT_GROUP, body=_rates), _GROUP, *_RATES),
        command("update", "Change rates of a resource group.", request(routes.PUT_GROUP, body=_rates), _GROUP, *_RATES),
        command("delete", "Delete a resource group.", request(routes.DELETE_GROUP), _GROUP),
    ),
)

NAMESPACE_RESOURCE_GROUPS: Final = (
    command(
        "set-resource-group",
        "Put a namespace into a resource group.",
        request(routes.SET_GROUP_OF_NAMESPACE),
        NAMESPACE,
        Flag("-rgn --resource-group-name", "group", "The resource group.", required=True),
    ),
    command(
        "get-resource-group",
        "Show the resource group of a namespace.",
        request(routes.GET_GROUP_OF_NAMESPACE),
        NAMESPACE,
    ),
    command(
        "remove-resource-group",
        "Remove a namespace from its resource group.",
        request(routes.REMOVE_GROUP_OF_NAMESPACE),
        NAMESPACE,
    ),
)
