"""What a namespace says about stored messages: retention, expiry, backlog quotas. Source: Pulsar's `Namespaces`."""

from typing import Final

from pulsar_barycenter.admin.routes.rights import reads, writes
from pulsar_barycenter.admin.routes.route import RouteGroup, one_of

SIZE_QUOTA: Final = "destination_storage"
AGE_QUOTA: Final = "message_age"
QUOTA_TYPES: Final = (SIZE_QUOTA, AGE_QUOTA)
"""What a backlog quota limits: the size of the backlog, or the age of its oldest message."""
QUOTA_POLICIES: Final = ("producer_request_hold", "producer_exception", "consumer_backlog_eviction")
"""What happens when a backlog exceeds its quota."""

NAMESPACE_STORAGE: Final = RouteGroup("NamespaceStorage", "/admin/v2/namespaces/{tenant}/{namespace}")

GET_RETENTION: Final = NAMESPACE_STORAGE.route(
    "GET",
    "/retention",
    "retention",
    reads("RETENTION"),
    "Show the retention of a namespace; 204 if the configuration applies.",
)

SET_RETENTION: Final = NAMESPACE_STORAGE.route(
    "POST",
    "/retention",
    "set_retention",
    writes("RETENTION"),
    "Set for how long and up to which size of a topic consumed messages are kept; -1 is no limit.",
    body="RetentionPolicies",
    by_leader=True,
)

DELETE_RETENTION: Final = NAMESPACE_STORAGE.route(
    "DELETE",
    "/retention",
    "delete_retention",
    writes("RETENTION"),
    "Let the configuration's retention apply to a namespace again.",
    by_leader=True,
)

GET_MESSAGE_TTL: Final = NAMESPACE_STORAGE.route(
    "GET",
    "/messageTTL",
    "message_ttl",
    reads("TTL"),
    "Show the age in seconds at which messages expire; 204 if the configuration applies.",
)

SET_MESSAGE_TTL: Final = NAMESPACE_STORAGE.route(
    "POST",
    "/messageTTL",
    "set_message_ttl",
    writes("TTL"),
    "Set the age in seconds at which messages leave every backlog; 0 is never.",
    body=int,
    by_leader=True,
)

DELETE_MESSAGE_TTL: Final = NAMESPACE_STORAGE.route(
    "DELETE",
    "/messageTTL",
    "delete_message_ttl",
    writes("TTL"),
    "Let the configuration's ttlDurationDefaultInSeconds apply to a namespace again.",
    by_leader=True,
)

GET_BACKLOG_QUOTAS: Final = NAMESPACE_STORAGE.route(
    "GET",
    "/backlogQuotaMap",
    "backlog_quotas",
    reads("BACKLOG"),
    "Show the backlog quotas of a namespace by their types.",
)

SET_BACKLOG_QUOTA: Final = NAMESPACE_STORAGE.route(
    "POST",
    "/backlogQuota",
    "set_backlog_quota",
    writes("BACKLOG"),
    "Set the quota of the backlog's size (`destination_storage`) or of its age (`message_age`).",
    body="BacklogQuota",
    query={"backlogQuotaType": one_of(*QUOTA_TYPES)},
    by_leader=True,
)

DELETE_BACKLOG_QUOTA: Final = NAMESPACE_STORAGE.route(
    "DELETE",
    "/backlogQuota",
    "delete_backlog_quota",
    writes("BACKLOG"),
    "Let the configuration's quota of the backlog's size, or of its age, apply to a namespace again.",
    query={"backlogQuotaType": one_of(*QUOTA_TYPES)},
    by_leader=True,
)
