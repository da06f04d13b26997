"""The whole route table, in the order in which a server registers its rows; the first row that matches answers."""

from collections.abc import Mapping
from typing import Final

from pulsar_barycenter.admin.routes import (
    auto_creation,
    barycenter,
    bookies,
    brokers,
    clusters,
    lookup,
    messages,
    namespace_details,
    namespace_rules,
    namespace_storage,
    namespaces,
    not_served,
    permissions,
    resource_groups,
    resource_quotas,
    schemas,
    tenants,
    topic_policies,
    topics,
)
from pulsar_barycenter.admin.routes.route import Route, RouteGroup

GROUPS: Final[tuple[RouteGroup, ...]] = (
    lookup.LOOKUP,
    clusters.CLUSTERS,
    clusters.NAMESPACE_ISOLATION,
    clusters.FAILURE_DOMAINS,
    tenants.TENANTS,
    namespaces.NAMESPACES,
    namespaces.NAMESPACE_POLICIES,
    namespace_details.NAMESPACE_CLUSTERS,
    namespace_details.NAMESPACE_PROPERTIES,
    namespaces.NAMESPACE_LIMITS,
    namespace_storage.NAMESPACE_STORAGE,
    namespace_rules.NAMESPACE_RULES,
    auto_creation.AUTO_CREATION,
    resource_groups.RESOURCE_GROUPS,
    bookies.BOOKIES,
    resource_quotas.RESOURCE_QUOTAS,
    permissions.PERMISSIONS,
    topics.TOPICS,
    topics.PARTITIONED_TOPICS,
    barycenter.PARTITION_CHANGES,
    topics.SUBSCRIPTIONS,
    topics.SUBSCRIPTION_PROPERTIES,
    topics.TOPIC_PROPERTIES,
    messages.CURSORS,
    messages.MESSAGES,
    messages.TERMINATION,
    messages.BACKLOGS,
    topics.TOPIC_FIGURES,
    topic_policies.TOPIC_POLICIES,
    topics.COMPACTION,
    schemas.SCHEMAS,
    schemas.SCHEMA_POLICIES,
    brokers.BROKERS,
    brokers.BROKER_STATS,
    not_served.NOT_SERVED,
    barycenter.METRICS,
    barycenter.DECISIONS,
    barycenter.AUDIT,
    barycenter.LEADERS_VIEW,
    barycenter.EXPLANATIONS,
    barycenter.SPLIT_PREVIEWS,
    barycenter.DRAIN_PREVIEWS,
    barycenter.SETTINGS,
    barycenter.DASHBOARD_PAGE,
    barycenter.DAMAGED_LEDGERS,
    barycenter.LEADER_WRITES_RESOURCE,
    barycenter.OPEN_API,
    barycenter.ROTATION,
)

ROUTES: Final[tuple[Route, ...]] = tuple(row for group in GROUPS for row in group.routes)

BY_PATH: Final[Mapping[tuple[str, str], Route]] = {(row.method, row.path): row for row in ROUTES}
"""Rows by method and path; the names of the path's parts are in braces."""
