"""Brokers and their stats. Source: Pulsar's `Brokers`, `BrokerStats`."""

from typing import Final

from pulsar_barycenter.admin.routes.rights import KNOWN_CALLER, SUPER_USER
from pulsar_barycenter.admin.routes.route import FLAG, TEXT, RouteGroup, number, one_of

MOST_UNLOADS_PER_S: Final = 2**31 - 1

BROKERS: Final = RouteGroup("Brokers", "/admin/v2/brokers")

LIST_BROKERS: Final = BROKERS.route("GET", "", "active", SUPER_USER, "List the ids of the brokers that are registered.")

GET_LEADER: Final = BROKERS.route(
    "GET", "/leaderBroker", "leader", SUPER_USER, "Show the leader; during an election, the answer waits for its end."
)

LIST_DYNAMIC_CONFIGURATION: Final = BROKERS.route(
    "GET", "/configuration", "dynamic_names", SUPER_USER, "List the keys that may change at run time."
)

GET_DYNAMIC_VALUES: Final = BROKERS.route(
    "GET",
    "/configuration/values",
    "overrides",
    SUPER_USER,
    "Show the overrides that are stored for all brokers; values of secrets are hidden.",
)

GET_RUNTIME_CONFIGURATION: Final = BROKERS.route(
    "GET",
    "/configuration/runtime",
    "runtime",
    SUPER_USER,
    "Show every key with the value in force on the requested broker.",
)

SET_DYNAMIC_VALUE: Final = BROKERS.route(
    "POST",
    "/configuration/{name}/{value:.*}",
    "set_override",
    SUPER_USER,
    "Change a key on all brokers; with `expected`, only if that is its present value, else 409.",
    query={"expected": TEXT},
    by_leader=True,
)

DELETE_DYNAMIC_VALUE: Final = BROKERS.route(
    "DELETE",
    "/configuration/{name}",
    "delete_override",
    SUPER_USER,
    "Remove an override; the value of the file applies after a restart. `expected` as for a change.",
    query={"expected": TEXT},
    by_leader=True,
)

GET_INTERNAL_CONFIGURATION: Final = BROKERS.route(
    "GET",
    "/internal-configuration",
    "internal_configuration",
    SUPER_USER,
    "Show where metadata and ledgers are stored.",
)

BROKERS.route(
    "GET",
    "/ready",
    "ready",
    KNOWN_CALLER,
    "Answer 200 while the broker is in service.",
    without_command="for load balancers",
)

CHECK_HEALTH: Final = BROKERS.route(
    "GET",
    "/health",
    "health",
    SUPER_USER,
    "Write a message to a topic of the broker, and read it back; `brokerId` names another broker to check.",
    query={"brokerId": TEXT, "topicVersion": one_of("V1", "V2")},
)

CHECK_BACKLOG_QUOTAS: Final = BROKERS.route(
    "GET",
    "/backlog-quota-check",
    "check_backlog_quotas",
    SUPER_USER,
    "Enforce the backlog quotas of the topics that this broker has loaded, now.",
)

GET_VERSION: Final = BROKERS.route("GET", "/version", "version", KNOWN_CALLER, "Show the version of Barycenter.")

SHUT_DOWN: Final = BROKERS.route(
    "POST",
    "/shutdown",
    "shutdown",
    SUPER_USER,
    "Begin an orderly stop; the answer does not wait for its end.",
    query={"forcedTerminateTopic": FLAG, "maxConcurrentUnloadPerSec": number(MOST_UNLOADS_PER_S)},
)

LIST_BROKERS_OF_CLUSTER: Final = BROKERS.route(
    "GET", "/{cluster}", "active_of_cluster", SUPER_USER, "List the brokers of a cluster."
)

GET_OWNED_BUNDLES: Final = BROKERS.route(
    "GET",
    "/{cluster}/{broker}/ownedNamespaces",
    "owned",
    SUPER_USER,
    "Show the bundles of the named broker; the request is passed on to that broker.",
)


BROKER_STATS: Final = RouteGroup("BrokerStats", "/admin/v2/broker-stats")

GET_LOAD_REPORT: Final = BROKER_STATS.route(
    "GET", "/load-report", "load_report", SUPER_USER, "Show the present load of the broker."
)

GET_MBEANS: Final = BROKER_STATS.route(
    "GET",
    "/mbeans",
    "mbeans",
    SUPER_USER,
    "Show the MBeans of the broker: an empty list, because it is no JVM.",
    without_command="the list is always empty",
)

GET_TOPICS: Final = BROKER_STATS.route(
    "GET",
    "/topics",
    "topics",
    SUPER_USER,
    "Stream namespace → bundle → domain → topic → statistics, one topic at a time.",
)

GET_METRICS: Final = BROKER_STATS.route(
    "GET", "/metrics", "metrics", SUPER_USER, "Show the metrics of every namespace with topics on this broker."
)

GET_ALLOCATOR_STATS: Final = BROKER_STATS.route(
    "GET",
    "/allocator-stats/{allocator}",
    "allocator_stats",
    SUPER_USER,
    "Show an empty answer: this broker has no such allocators.",
)

BROKER_STATS.route(
    "GET",
    "/broker-resource-availability/{tenant}/{namespace}",
    "resource_availability",
    SUPER_USER,
    "Show rank → the brokers that may serve the namespace; only the simple load manager ranks brokers.",
    without_command="only Pulsar's Java client sends it",
)
