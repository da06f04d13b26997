"""Retention, expiry and backlog quotas: commands of `namespaces`. Source: Pulsar's `CmdNamespaces`."""

from typing import Any, Final

from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.commands.table import NAMESPACE, Flag, Values, WrongUsageError, command, request
from pulsar_barycenter.admin.commands.units import bytes_of, seconds_of
from pulsar_barycenter.admin.routes import namespace_storage as routes

QUOTA_TYPE: Final = Flag(
    "-t --type",
    "type",
    "What it limits: the backlog's size, or the age of its oldest message.",
    choices=routes.QUOTA_TYPES,
    default=routes.SIZE_QUOTA,
)
OF_TYPE: Final = {"backlogQuotaType": "type"}
QUOTA_FLAGS: Final = (
    Flag("-l --limit", "limit", "Bytes, or 10M, 16G; below 0 means no limit."),
    Flag("-lt --limitTime", "time", "Seconds, or 100m, 3h, 2d, 5w; 0 or less means no limit."),
    Flag("-p --policy", "policy", "What happens at the limit.", choices=routes.QUOTA_POLICIES, required=True),
    QUOTA_TYPE,
)


def retention_body(values: Values) -> dict[str, int]:
    """Return the body of a request that sets a retention."""
    seconds, size = seconds_of("--time", values["time"]), bytes_of("--size", values["size"])
    return {
        "retentionTimeInMinutes": seconds // 60 if seconds >= 0 else seconds,
        "retentionSizeInMB": size >> 20 if size >= 0 else size,
    }


def quota_body(values: Values) -> dict[str, Any]:
    """Return the body of a request that sets a backlog quota."""
    is_size = values["type"] == routes.SIZE_QUOTA
    typed = values["limit"] if is_size else values["time"]
    if typed is None:
        needed, option = ("size limit", "--limit") if is_size else ("time limit", "--limitTime")
        raise WrongUsageError(f"Quota type of '{values['type']}' needs a {needed}: give {option}")
    return {
        "limitSize": bytes_of("--limit", typed) if is_size else -1,
        "limitTime": -1 if is_size else seconds_of("--limitTime", typed),
        "policy": values["policy"],
    }


NAMESPACE_STORAGE: Final = (
    command(
        "get-retention",
        "Show the retention of consumed messages.",
        request(routes.GET_RETENTION),
        NAMESPACE,
        form=Form.VALUE,
    ),
    command(
        "set-retention",
        "Set for how long and up to which size of a topic consumed messages are kept.",
        request(routes.SET_RETENTION, body=retention_body),
        NAMESPACE,
        Flag("-t --time", "time", "Seconds, or 100m, 3h, 2d, 5w; 0 keeps none, -1 is no limit.", required=True),
        Flag("-s --size", "size", "Bytes, or 10M, 16G, 3T; 0 keeps none, -1 is no limit.", required=True),
    ),
    command(
        "remove-retention",
        "Use the broker's configuration again for retention.",
        request(routes.DELETE_RETENTION),
        NAMESPACE,
    ),
    command(
        "get-message-ttl",
        "Show the age in seconds at which messages expire.",
        request(routes.GET_MESSAGE_TTL),
        NAMESPACE,
        form=Form.VALUE,
    ),
    command(
        "set-message-ttl",
        "Set the age at which messages expire.",
        request(routes.SET_MESSAGE_TTL, body=lambda values: seconds_of("--messageTTL", values["ttl"])),
        NAMESPACE,
        Flag("-ttl --messageTTL", "ttl", "Seconds, or 100m, 3h, 2d, 5w; 0 means never.", required=True),
    ),
    command(
        "remove-message-ttl",
        "Use the broker's configuration again for the age.",
        request(routes.DELETE_MESSAGE_TTL),
        NAMESPACE,
    ),
    command(
        "get-backlog-quotas",
        "Show the backlog quotas.",
        request(routes.GET_BACKLOG_QUOTAS),
        NAMESPACE,
        form=Form.PAIRS,
    ),
    command(
        "set-backlog-quota",
        "Set a backlog quota.",
        request(routes.SET_BACKLOG_QUOTA, query=OF_TYPE, body=quota_body),
        NAMESPACE,
        *QUOTA_FLAGS,
    ),
    command(
        "remove-backlog-quota",
        "Use the broker's configuration again for a backlog quota.",
        request(routes.DELETE_BACKLOG_QUOTA, query=OF_TYPE),
        NAMESPACE,
        QUOTA_TYPE,
    ),
)
