"""The operations that a right allows. Source: Pulsar's `TenantOperation`, `NamespaceOperation`, `TopicOperation`."""

from enum import StrEnum


class TenantOperation(StrEnum):
    GET_TENANT = "get the tenant"
    LIST_NAMESPACES = "list namespaces"
    CREATE_NAMESPACE = "create a namespace"
    DELETE_NAMESPACE = "delete a namespace"


class NamespaceOperation(StrEnum):
    GET_TOPICS = "list topics"
    GET_BUNDLE = "see bundles"
    CREATE_TOPIC = "create a topic"
    DELETE_TOPIC = "delete a topic"
    DELETE_BUNDLE = "delete a bundle"
    GRANT_PERMISSION = "grant permissions"
    REVOKE_PERMISSION = "revoke permissions"
    GET_PERMISSION = "see permissions"
    UNSUBSCRIBE = "unsubscribe"
    CLEAR_BACKLOG = "clear a backlog"
    PACKAGES = "use packages"


class TopicOperation(StrEnum):
    LOOKUP = "look up"
    GET_METADATA = "see metadata"
    GET_STATS = "see statistics"
    PRODUCE = "produce"
    CONSUME = "consume"
    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"
    RESET_CURSOR = "seek"
    SKIP = "skip"
    EXPIRE_MESSAGES = "expire messages"
    PEEK_MESSAGES = "peek"
    GET_BACKLOG_SIZE = "see the size of a backlog"
    GET_SUBSCRIPTIONS = "list subscriptions"
    COMPACT = "compact"
    TERMINATE = "terminate"
    ADMINISTER_SCHEMA = "administer the schema"
    UNLOAD = "unload"


class PolicyOperation(StrEnum):
    READ = "see"
    WRITE = "change"
