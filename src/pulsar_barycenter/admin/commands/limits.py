"""The limits of topics per namespace, and of clients and subscriptions per topic: commands of `namespaces`.

Source: Pulsar's `CmdNamespaces`.
"""

from typing import Final

from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.commands.table import NAMESPACE, Command, Flag, Kind, command, request
from pulsar_barycenter.admin.routes import namespaces as routes
from pulsar_barycenter.admin.routes.permissions import GET_SUBSCRIPTION_AUTH_MODE, SET_SUBSCRIPTION_AUTH_MODE

_LIMITS: Final = {
    "max-topics-per-namespace": (routes.TOPICS_PER_NAMESPACE, "-t", "how many topics the namespace may have"),
    "max-producers-per-topic": (routes.PRODUCERS_PER_TOPIC, "-p", "how many producers a topic may have"),
    "max-consumers-per-topic": (routes.CONSUMERS_PER_TOPIC, "-c", "how many consumers a topic may have"),
    "max-consumers-per-subscription": (
        routes.CONSUMERS_PER_SUBSCRIPTION,
        "-c",
        "how many consumers a subscription may have",
    ),
    "max-subscriptions-per-topic": (routes.SUBSCRIPTIONS_PER_TOPIC, "-m", "how many subscriptions a topic may have"),
}
"""The name of each limit in `get-…`, `set-…` and `remove-…`, with its routes, its short flag, and its description."""


def _of(name: str, limit: routes.LimitRoutes, short: str, what: str) -> tuple[Command, ...]:
    most = Flag(f"{short} --{name}", "limit", "The limit; 0 means no limit.", Kind.NUMBER, required=True)
    return (
        command(f"get-{name}", f"Show {what}.", request(limit.show), NAMESPACE, form=Form.VALUE),
        command(
            f"set-{name}",
            f"Set {what}.",
            request(limit.change, body=lambda values: values["limit"]),
            NAMESPACE,
            most,
        ),
        command(
            f"remove-{name}",
            f"Use the broker's configuration again for {what}.",
            request(limit.remove),
            NAMESPACE,
        ),
    )


NAMESPACE_LIMITS: Final = (
    *(each for name, (limit, short, what) in _LIMITS.items() for each in _of(name, limit, short, what)),
    command(
        "get-subscription-auth-mode",
        "Show whether names of subscriptions begin with the role that uses them.",
        request(GET_SUBSCRIPTION_AUTH_MODE),
        NAMESPACE,
        form=Form.VALUE,
    ),
    command(
        "set-subscription-auth-mode",
        "Set whether names of subscriptions must begin with the role that uses them.",
        request(SET_SUBSCRIPTION_AUTH_MODE, body=lambda values: values["mode"]),
        NAMESPACE,
        Flag(
            "-m --subscription-auth-mode",
            "mode",
            "Prefix, or None to allow any name.",
            choices=("None", "Prefix"),
            required=True,
        ),
    ),
)
