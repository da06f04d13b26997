"""Messages of topics: moving cursors over them. Source: Pulsar's `PersistentTopics`, `NonPersistentTopics`."""

from typing import Final

from pulsar_barycenter.admin.operations import TopicOperation
from pulsar_barycenter.admin.routes.rights import OnTopic
from pulsar_barycenter.admin.routes.route import FLAG, RouteGroup
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
