"""The permissions of roles on a namespace, a subscription or a topic. Source: `CmdNamespaces`, `CmdTopics`."""

from typing import Final

from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.commands.table import (
    NAMESPACE,
    TOPIC,
    Flag,
    Kind,
    Values,
    WrongUsageError,
    command,
    request,
)
from pulsar_barycenter.admin.routes import permissions as routes

_ACTIONS: Final = ("produce", "consume", "functions", "sources", "sinks", "packages")
_ROLE = Flag("--role", "role", "The role.", required=True)
_GRANTED = Flag(
    "--actions",
    "actions",
    f"What the role may do, separated by commas: {', '.join(_ACTIONS)}.",
    Kind.NAMES,
    required=True,
)
_SUBSCRIPTION = Flag("-s --subscription", "subscription", "The subscription.", required=True)


def _actions(values: Values) -> list[str]:
    actions: list[str] = values["actions"]
    unknown = [each for each in actions if each not in _ACTIONS]
    if unknown or not actions:
        raise WrongUsageError(
            f"--actions {','.join(unknown)} is not possible: give one or several of {', '.join(_ACTIONS)}"
        )
    return actions


NAMESPACE_PERMISSIONS: Final = (
    command(
        "permissions", "Show which roles may do what.", request(routes.GET_PERMISSIONS), NAMESPACE, form=Form.PAIRS
    ),
    command(
        "grant-permission",
        "Grant a role permissions on all topics of a namespace.",
        request(routes.GRANT, body=_actions),
        NAMESPACE,
        _ROLE,
        _GRANTED,
    ),
    command("revoke-permission", "Revoke all permissions of a role.", request(routes.REVOKE), NAMESPACE, _ROLE),
    command(
        "subscription-permission",
        "Show which roles may use which subscriptions.",
        request(routes.GET_SUBSCRIPTION_PERMISSIONS),
        NAMESPACE,
        form=Form.PAIRS,
    ),
    command(
        "grant-subscription-permission",
        "Allow only some roles to use a subscription.",
        request(routes.GRANT_ON_SUBSCRIPTION, body=lambda values: values["roles"]),
        NAMESPACE,
        _SUBSCRIPTION,
        Flag("-rs --roles", "roles", "The roles, separated by commas.", Kind.NAMES, required=True),
    ),
    command(
        "revoke-subscription-permission",
        "Revoke the permission of a role to use a subscription.",
        request(routes.REVOKE_ON_SUBSCRIPTION),
        NAMESPACE,
        _SUBSCRIPTION,
        Flag("-r --role", "role", "The role.", required=True),
    ),
)

TOPIC_PERMISSIONS: Final = (
    command(
        "permissions", "Show which roles may do what.", request(routes.GET_TOPIC_PERMISSIONS), TOPIC, form=Form.PAIRS
    ),
    command(
        "grant-permission",
        "Grant a role permissions on a topic.",
        request(routes.GRANT_ON_TOPIC, body=_actions),
        TOPIC,
        _ROLE,
        _GRANTED,
    ),
    command("revoke-permission", "Revoke all permissions of a role.", request(routes.REVOKE_ON_TOPIC), TOPIC, _ROLE),
)
