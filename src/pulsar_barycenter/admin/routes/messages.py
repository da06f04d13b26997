"""Messages of topics: moves cursors over them, and shows them.

Source: Pulsar's `PersistentTopics` and `NonPersistentTopics`.
"""

from typing import Final

from pulsar_barycenter.admin.operations import NamespaceOperation, TopicOperation
from pulsar_barycenter.admin.routes.rights import OnNamespace, OnTopic
from pulsar_barycenter.admin.routes.route import FLAG, LARGEST_EXACT, RouteGroup, number, one_of
from pulsar_barycenter.admin.routes.topic_policies import WITHOUT_EFFECT
from pulsar_barycenter.admin.routes.topics import TOPIC

_SUBSCRIPTION: Final = "/subscription/{subscription:[^/]+}"
_AUTHORITATIVE: Final = {"authoritative": FLAG}

CURSORS: Final = RouteGroup("Cursors", TOPIC)

SKIP: Final = CURSORS.route(
    "POST",
    _SUBSCRIPTION + "/skip/{count}",
    "skip",
    OnTopic(TopicOperation.SKIP, has_subscription=True),
    "Skip so many entries that are not acknowledged; a batch is one entry.",
    query=_AUTHORITATIVE,
)

SKIP_ALL: Final = CURSORS.route(
    "POST",
    _SUBSCRIPTION + "/skip_all",
    "skip_all",
    OnTopic(TopicOperation.SKIP, has_subscription=True),
    "Skip the whole backlog, of a partitioned topic on each partition.",
    query=_AUTHORITATIVE,
)

EXPIRE: Final = CURSORS.route(
    "POST",
    _SUBSCRIPTION + "/expireMessages/{seconds}",
    "expire",
    OnTopic(TopicOperation.EXPIRE_MESSAGES, has_subscription=True),
    "Skip messages older than so many seconds; 409 if there are none to look at.",
    query=_AUTHORITATIVE,
)

EXPIRE_BY_POSITION: Final = CURSORS.route(
    "POST",
    _SUBSCRIPTION + "/expireMessages",
    "expire_by_position",
    OnTopic(TopicOperation.EXPIRE_MESSAGES, has_subscription=True),
    "Skip messages up to a message id, inclusive; 409 if there is no backlog or the id is after the last message.",
    body="MessageId",
    query=_AUTHORITATIVE,
)

EXPIRE_ALL: Final = CURSORS.route(
    "POST",
    "/all_subscription/expireMessages/{seconds}",
    "expire_all",
    OnTopic(TopicOperation.EXPIRE_MESSAGES),
    "Skip messages older than so many seconds on all subscriptions.",
    query=_AUTHORITATIVE,
)

RESET_TO_TIME: Final = CURSORS.route(
    "POST",
    _SUBSCRIPTION + "/resetcursor/{timestamp}",
    "reset_to_time",
    OnTopic(TopicOperation.RESET_CURSOR, has_subscription=True),
    "Deliver again from the first message published at a time (ms since 1970) or later.",
    query=_AUTHORITATIVE,
)

RESET_TO_POSITION: Final = CURSORS.route(
    "POST",
    _SUBSCRIPTION + "/resetcursor",
    "reset_to_position",
    OnTopic(TopicOperation.RESET_CURSOR, has_subscription=True),
    "Deliver again from a message id; with `excluded` from the one after it.",
    body="MessageId",
    query=_AUTHORITATIVE,
)

GET_REPLICATED: Final = CURSORS.route(
    "GET",
    _SUBSCRIPTION + "/replicatedSubscriptionStatus",
    "replicated",
    OnTopic(TopicOperation.CONSUME, has_subscription=True),
    "Show by topic or partition whether a subscription is replicated: it is not.",
    query=_AUTHORITATIVE,
    without_command=WITHOUT_EFFECT,
)

SET_REPLICATED: Final = CURSORS.route(
    "POST",
    _SUBSCRIPTION + "/replicatedSubscriptionStatus",
    "set_replicated",
    OnTopic(TopicOperation.CONSUME, has_subscription=True),
    "Accepted without effect: a subscription is not replicated to other clusters.",
    body=bool,
    query=_AUTHORITATIVE,
    without_command=WITHOUT_EFFECT,
)


MESSAGES: Final = RouteGroup("Messages", TOPIC)
_PEEK: Final = OnTopic(TopicOperation.PEEK_MESSAGES)

PEEK: Final = MESSAGES.route(
    "GET",
    _SUBSCRIPTION + "/position/{position}",
    "peek",
    OnTopic(TopicOperation.PEEK_MESSAGES, has_subscription=True),
    "Show the message at a place in the backlog, from 1; its metadata is in headers `X-Pulsar-…`.",
    query=_AUTHORITATIVE,
)

GET_BY_ID: Final = MESSAGES.route(
    "GET", "/ledger/{ledger}/entry/{entry}", "by_id", _PEEK, "Show the message with an id.", query=_AUTHORITATIVE
)

EXAMINE: Final = MESSAGES.route(
    "GET",
    "/examinemessage",
    "examine",
    _PEEK,
    "Show the message at a place in the topic, from 1, counted from the `latest` or the `earliest` message.",
    query={
        "initialPosition": one_of("latest", "earliest"),
        "messagePosition": number(LARGEST_EXACT),
        **_AUTHORITATIVE,
    },
)

GET_ID_BY_TIME: Final = MESSAGES.route(
    "GET",
    "/messageid/{timestamp}",
    "id_by_time",
    _PEEK,
    "Show the id of the first message published at a time (ms since 1970) or later.",
    query=_AUTHORITATIVE,
)

GET_ID_BY_INDEX: Final = MESSAGES.route(
    "GET",
    "/getMessageIdByIndex",
    "id_by_index",
    _PEEK,
    "Refused with 412: this broker gives messages no index.",
    query={"index": number(LARGEST_EXACT), **_AUTHORITATIVE},
    without_command="it is refused",
)

GET_LAST_ID: Final = MESSAGES.route(
    "GET", "/lastMessageId", "last_id", _PEEK, "Show the id of the last message.", query=_AUTHORITATIVE
)

GET_BACKLOG_SIZE: Final = MESSAGES.route(
    "PUT",
    "/backlogSize",
    "backlog_size",
    OnTopic(TopicOperation.GET_BACKLOG_SIZE),
    "Show how many bytes are stored after a message id.",
    body="MessageId",
    query=_AUTHORITATIVE,
)


TERMINATION: Final = RouteGroup("Termination", TOPIC)

TERMINATE: Final = TERMINATION.route(
    "POST",
    "/terminate",
    "terminate",
    OnTopic(TopicOperation.TERMINATE),
    "Accept no messages any more, and show the id of the last one; consumers read to the end.",
    query=_AUTHORITATIVE,
)

TERMINATE_PARTITIONS: Final = TERMINATION.route(
    "POST",
    "/terminate/partitions",
    "terminate_partitions",
    OnTopic(TopicOperation.TERMINATE),
    "Terminate each partition, and show the id of the last message by partition.",
    query=_AUTHORITATIVE,
)


BACKLOGS: Final = RouteGroup("Backlogs")
_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_BUNDLE: Final = _NAMESPACE + "/{range:[0-9][^/]*}"
_MAY_CLEAR: Final = OnNamespace(NamespaceOperation.CLEAR_BACKLOG)

CLEAR_NAMESPACE: Final = BACKLOGS.route(
    "POST",
    _NAMESPACE + "/clearBacklog",
    "clear_namespace",
    _MAY_CLEAR,
    "Skip the whole backlog of all subscriptions of all topics of a namespace.",
    query=_AUTHORITATIVE,
)

CLEAR_NAMESPACE_SUBSCRIPTION: Final = BACKLOGS.route(
    "POST",
    _NAMESPACE + "/clearBacklog/{subscription:[^/]+}",
    "clear_namespace",
    _MAY_CLEAR,
    "Skip the whole backlog of one subscription on all topics of a namespace.",
    query=_AUTHORITATIVE,
)

CLEAR_BUNDLE: Final = BACKLOGS.route(
    "POST",
    _BUNDLE + "/clearBacklog",
    "clear_bundle",
    _MAY_CLEAR,
    "The same for the topics of a bundle, on its owner.",
    query=_AUTHORITATIVE,
)

CLEAR_BUNDLE_SUBSCRIPTION: Final = BACKLOGS.route(
    "POST",
    _BUNDLE + "/clearBacklog/{subscription:[^/]+}",
    "clear_bundle",
    _MAY_CLEAR,
    "The same for one subscription on the topics of a bundle.",
    query=_AUTHORITATIVE,
)

_MAY_UNSUBSCRIBE: Final = OnNamespace(NamespaceOperation.UNSUBSCRIBE)

UNSUBSCRIBE_NAMESPACE: Final = BACKLOGS.route(
    "POST",
    _NAMESPACE + "/unsubscribe/{subscription:[^/]+}",
    "unsubscribe_namespace",
    _MAY_UNSUBSCRIBE,
    "Delete a subscription on all persistent topics of a namespace; 412 if consumers are connected.",
    query=_AUTHORITATIVE,
)

UNSUBSCRIBE_BUNDLE: Final = BACKLOGS.route(
    "POST",
    _BUNDLE + "/unsubscribe/{subscription:[^/]+}",
    "unsubscribe_bundle",
    _MAY_UNSUBSCRIBE,
    "The same for the topics of a bundle, on its owner.",
    query=_AUTHORITATIVE,
)

TRIM: Final = BACKLOGS.route(
    "POST",
    TOPIC + "/trim",
    "trim",
    OnNamespace(NamespaceOperation.DELETE_TOPIC),
    "Start to delete the closed ledgers that are consumed and that retention does not keep.",
    query=_AUTHORITATIVE,
)

TRUNCATE: Final = BACKLOGS.route(
    "DELETE",
    TOPIC + "/truncate",
    "truncate",
    OnNamespace(NamespaceOperation.DELETE_TOPIC),
    "Skip all messages of all subscriptions, and delete the closed ledgers.",
    query=_AUTHORITATIVE,
)

ANALYZE: Final = BACKLOGS.route(
    "POST",
    TOPIC + _SUBSCRIPTION + "/analyzeBacklog",
    "analyze",
    OnTopic(TopicOperation.CONSUME, has_subscription=True),
    "Count exactly the entries and messages in a backlog, from a message id on if the body has one.",
    body="MessageId",
    query=_AUTHORITATIVE,
)
