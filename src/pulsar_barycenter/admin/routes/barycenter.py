"""Barycenter's own routes: metrics, the dashboard, decisions, logs, and requests between brokers."""

from typing import Final, get_args

from pulsar_barycenter.admin.routes.rights import KNOWN_CALLER, PUBLIC, SUPER_USER, ForMetrics
from pulsar_barycenter.admin.routes.route import FLAG, TEXT, RouteGroup, number, one_of
from pulsar_barycenter.cluster_logs.decision_log import KEPT, Kind
from pulsar_barycenter.cluster_logs.record_pages import LATEST_MS, MAX_RECORDS_ON_PAGE
from pulsar_barycenter.load.reports.load_over_time import LATEST_TIME_MS, LONGEST_STEP_MS

LOG_OF: Final = ("cluster", "broker")
"""The logs that a page is made of: the cluster's or one broker's; the first is the default."""
TIMELINE_OF: Final = ("broker", "leader", "cluster")
"""The brokers whose decisions a timeline shows; the first is the default."""
MOST_TIMELINE: Final = 1_000
"""The maximum number of decisions of a timeline."""
MOST_LISTED_BUNDLES: Final = 1_000

PARTITION_CHANGES: Final = RouteGroup("PartitionChanges", "/barycenter/v1")

CHANGE_PARTITION: Final = PARTITION_CHANGES.route(
    "POST",
    "/partition-changes",
    "answer",
    SUPER_USER,
    "Ask the owner of a partition whether it agrees to a change of its topic, or have it make the change.",
    body="PartRequest",
    query={"authoritative": FLAG},
    is_audited=False,
)


METRICS: Final = RouteGroup("Metrics")

for _path in ("/metrics", "/metrics/"):
    METRICS.route(
        "GET",
        _path,
        "show",
        ForMetrics(),
        "Show all metrics: in OpenMetrics to clients that accept it, else in Prometheus' plain text format.",
    )


DECISIONS: Final = RouteGroup("Decisions", "/barycenter/v1")

DECISIONS.route(
    "GET",
    "/decisions",
    "recent",
    SUPER_USER,
    "Show the last decisions with their reasons; `limit`, `bundle`, `namespace`, `broker`, `since` (epoch ms).",
    query={"limit": number(KEPT), "since": number(LATEST_MS), "bundle": TEXT, "namespace": TEXT, "broker": TEXT},
)

DECISIONS.route(
    "GET",
    "/decision-log",
    "logged",
    SUPER_USER,
    "Show a page of the decision logs, of this broker's folder or of all brokers' (`of`), back from `before`.",
    query={
        "of": one_of(*LOG_OF),
        "limit": number(MAX_RECORDS_ON_PAGE),
        "since": number(LATEST_MS),
        "until": number(LATEST_MS),
        "before": TEXT,
        "bundle": TEXT,
        "namespace": TEXT,
        "broker": TEXT,
        "topic": TEXT,
        "covering": TEXT,
        "kind": one_of(*get_args(Kind)),
    },
)

DECISIONS.route(
    "GET",
    "/snapshot",
    "snapshot",
    SUPER_USER,
    "Show the input of the leader's decisions: loads, windows, policies; other brokers redirect to the leader.",
)


AUDIT: Final = RouteGroup("Audit", "/barycenter/v1")

AUDIT.route(
    "GET",
    "/audit",
    "changes",
    SUPER_USER,
    "Show a page of administrative changes, by this broker or by all (`of`), back from `before`.",
    query={
        "of": one_of(*LOG_OF),
        "limit": number(MAX_RECORDS_ON_PAGE),
        "since": number(LATEST_MS),
        "until": number(LATEST_MS),
        "before": TEXT,
        "request_id": TEXT,
    },
)


LEADERS_VIEW: Final = RouteGroup("LeadersView", "/barycenter/v1")

LEADERS_VIEW.route(
    "GET",
    "/overview",
    "overview",
    SUPER_USER,
    "Show brokers with their heaviest bundles, and the drained ones (`drained`, `drainChange`); from the leader.",
)

LEADERS_VIEW.route(
    "GET",
    "/load-history",
    "load_history",
    SUPER_USER,
    "Show the load of brokers, of one `broker` or of a `bundle`, from `since` until `until`, oldest first, in "
    "steps of `step` ms (10 s to a day; at most 400 steps, 31 days, and 40,000 loads of brokers); without a "
    "parameter, the moments that the leader remembers. Older loads are from the pipeline's tables.",
    query={
        "since": number(LATEST_TIME_MS),
        "until": number(LATEST_TIME_MS),
        "step": number(LONGEST_STEP_MS),
        "broker": TEXT,
        "bundle": TEXT,
    },
)

LEADERS_VIEW.route(
    "GET",
    "/timeline",
    "timeline",
    SUPER_USER,
    "Show the last decisions in brief, oldest first, from the logs of this broker, the leader or all (`of`).",
    query={
        "of": one_of(*TIMELINE_OF),
        "limit": number(MOST_TIMELINE),
        "since": number(LATEST_MS),
        "bundle": TEXT,
        "namespace": TEXT,
        "broker": TEXT,
    },
)


EXPLANATIONS: Final = RouteGroup("Explanations", "/barycenter/v1")

EXPLANATIONS.route(
    "GET",
    "/explanation",
    "explanation",
    SUPER_USER,
    "Say where a `topic`, `bundle`, `namespace` or `broker` is, why, and what the leader would do with it now.",
    query={"topic": TEXT, "bundle": TEXT, "namespace": TEXT, "broker": TEXT, "destination": TEXT},
)

EXPLANATIONS.route(
    "GET",
    "/bundles",
    "bundles",
    SUPER_USER,
    "List the heaviest bundles with their owners, of a `broker`, of a `namespace`, or of all; from the leader.",
    query={"broker": TEXT, "namespace": TEXT, "limit": number(MOST_LISTED_BUNDLES)},
)

EXPLANATIONS.route(
    "GET",
    "/balance",
    "balance",
    SUPER_USER,
    "Say how evenly brokers are used, how evenly they could be, and what the leader would do; from the leader.",
)


SPLIT_PREVIEWS: Final = RouteGroup("SplitPreviews", "/barycenter/v1")

SPLIT_PREVIEWS.route(
    "GET",
    "/split-preview",
    "preview",
    SUPER_USER,
    "Show into which bundles a `bundle` would be split, by `splitAlgorithmName`; from its owner.",
    query={"bundle": TEXT, "splitAlgorithmName": TEXT},
)


DRAIN_PREVIEWS: Final = RouteGroup("DrainPreviews", "/barycenter/v1")

DRAIN_PREVIEWS.route(
    "GET",
    "/drain-preview",
    "preview",
    SUPER_USER,
    "Show which bundles would leave a drained `broker`, their new owners, and the loads after that; from the leader.",
    query={"broker": TEXT},
)


SETTINGS: Final = RouteGroup("Settings", "/barycenter/v1")

SETTINGS.route(
    "GET",
    "/settings",
    "in_force",
    SUPER_USER,
    "Show every key with its value on the requested broker, its default, and the source of the value.",
)

SETTINGS.route(
    "GET",
    "/settings/{name}",
    "change",
    SUPER_USER,
    "Show what setting a key to `value` would change, or why it would be refused; changes nothing.",
    query={"value": TEXT},
)

SETTINGS.route(
    "GET",
    "/setting-changes",
    "changes",
    SUPER_USER,
    "Show the last change of each dynamic key: the principal, the time and the reason.",
)


DASHBOARD_PAGE: Final = RouteGroup("DashboardPage")

DASHBOARD_PAGE.route("GET", "/", "start", PUBLIC, "Show the dashboard, a page for browsers.")

DASHBOARD_PAGE.route("GET", "/dashboard/{file}", "file", PUBLIC, "Show a file of the dashboard.")


DAMAGED_LEDGERS: Final = RouteGroup("DamagedLedgers", "/barycenter/v1")

DAMAGED_LEDGERS.route(
    "GET",
    "/damaged-ledgers",
    "show",
    SUPER_USER,
    "Show the damaged ledgers that were found in this broker's topics: topic, file, positions.",
)


LEADER_WRITES_RESOURCE: Final = RouteGroup("LeaderWritesResource", "/barycenter/v1")

WRITE_BY_LEADER: Final = LEADER_WRITES_RESOURCE.route(
    "POST",
    "/leader-writes",
    "write",
    SUPER_USER,
    "Let the leader write to the metadata store; only for brokers, which know the cluster's secret.",
    is_audited=False,
)


OPEN_API: Final = RouteGroup("OpenApi", "/barycenter/v1")

SHOW_OPENAPI: Final = OPEN_API.route(
    "GET", "/openapi.json", "show", KNOWN_CALLER, "Show this interface as an OpenAPI document."
)


ROTATION: Final = RouteGroup("Rotation")

ROTATION.route(
    "GET", "/status.html", "status", PUBLIC, "Answer 200 if a load balancer may send requests to this broker."
)
