"""How many topics a namespace may have, and how many clients and subscriptions each of them: commands of `namespaces`.

Source: Pulsar's `CmdNamespaces`.
"""

from typing import Final

from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.commands.table import NAMESPACE, Command, Flag, Kind, command, request

_LIMITS: Final = {
    "max-topics-per-namespace": ("maxTopicsPerNamespace", "-t", "how many topics the namespace may have"),
    "max-producers-per-topic": ("maxProducersPerTopic", "-p", "how many producers a topic may have"),
    "max-consumers-per-topic": ("maxConsumersPerTopic", "-c", "how many consumers a topic may have"),
    "max-consumers-per-subscription": (
        "maxConsumersPerSubscription",
        "-c",
        "how many consumers a subscription may have",
    ),
    "max-subscriptions-per-topic": ("maxSubscriptionsPerTopic", "-m", "how many subscriptions a topic may have"),
}
"""Names of the commands after `get-`, `set-` and `remove-`, with the place of the policy, a short flag, and words."""
_AUTH_MODE: Final = "/namespaces/{namespace}/subscriptionAuthMode"


def _of(name: str, place: str, short: str, what: str) -> tuple[Command, ...]:
    path = "/namespaces/{namespace}/" + place
    limit = Flag(f"{short} --{name}", "limit", "The limit; 0 is none.", Kind.NUMBER, required=True)
    return (
        command(f"get-{name}", f"Show {what}.", request("GET", path), NAMESPACE, form=Form.VALUE),
        command(
            f"set-{name}",
            f"Set {what}.",
            request("POST", path, body=lambda values: values["limit"]),
            NAMESPACE,
            limit,
        ),
        command(
            f"remove-{name}",
            f"Have the broker's setting say {what}.",
            request("DELETE", path),
            NAMESPACE,
        ),
    )


NAMESPACE_LIMITS: Final = (
    *(each for name, (place, short, what) in _LIMITS.items() for each in _of(name, place, short, what)),
    command(
        "get-subscription-auth-mode",
        "Show whether names of subscriptions begin with the role that uses them.",
        request("GET", _AUTH_MODE),
        NAMESPACE,
        form=Form.VALUE,
    ),
    command(
        "set-subscription-auth-mode",
        "Have names of subscriptions begin with the role that uses them, or not.",
        request("POST", _AUTH_MODE, body=lambda values: values["mode"]),
        NAMESPACE,
        Flag(
            "-m --subscription-auth-mode",
            "mode",
            "Prefix, or None for any names.",
            choices=("None", "Prefix"),
            required=True,
        ),
    ),
)
