"""What is refused, in the words of the binary protocol: exception to ServerError.

How clients react decides the choice (reference 4.7): ServiceNotReady makes them look the topic up again; TopicNotFound,
ConsumerBusy, ProducerBusy and NotAllowedError fail what the application asked for.
"""

from typing import Final, TypeAlias

import structlog

from pulsar_barycenter.broker import errors
from pulsar_barycenter.broker.authorization.errors import AccessError
from pulsar_barycenter.broker.cluster import lookup_answers
from pulsar_barycenter.broker.ownership.serving import NotServedError
from pulsar_barycenter.broker.wire.bounds import TEXT_LENGTH
from pulsar_barycenter.ledger.errors import LedgerClosedError, LedgerError, LedgerFencedError
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.protocol import pulsar_api_pb2 as api

log = structlog.get_logger(__name__)

ErrorCode: TypeAlias = api.ServerError.ValueType

_CODES: Final[tuple[tuple[type[Exception], ErrorCode], ...]] = (
    (AccessError, api.AuthorizationError),
    (NotServedError, api.ServiceNotReady),
    (errors.TopicFencedError, api.ServiceNotReady),
    (errors.TopicNotFoundError, api.TopicNotFound),
    (errors.SubscriptionNotFoundError, api.SubscriptionNotFound),
    (errors.SubscriptionBusyError, api.ConsumerBusy),
    (errors.ConsumerAssignError, api.ConsumerAssignError),
    (errors.ProducerBusyError, api.ProducerBusy),
    (errors.ExclusiveProducerError, api.ProducerBusy),
    (errors.TooManyProducersError, api.ProducerBusy),
    (errors.ProducerFencedError, api.ProducerFenced),
    (errors.MessagePendingError, api.ServiceNotReady),
    (errors.NotAllowedError, api.NotAllowedError),
    (errors.InvalidPositionError, api.MetadataError),
    (InvalidNameError, api.InvalidTopicName),
    (LedgerFencedError, api.ServiceNotReady),
    (LedgerClosedError, api.ServiceNotReady),
    (LedgerError, api.PersistenceError),
    (lookup_answers.LookupNotReadyError, api.ServiceNotReady),
    (lookup_answers.TooManyLookupsError, api.TooManyRequests),
    (lookup_answers.NamespaceNotFoundError, api.TopicNotFound),
    (lookup_answers.ListenerNotFoundError, api.NotAllowedError),
    (lookup_answers.LookupFailedError, api.MetadataError),
    (MetadataError, api.MetadataError),
    (TimeoutError, api.ServiceNotReady),
)

HANGS_FIRST_SUBSCRIBE: Final = frozenset(
    {
        api.UnknownError,
        api.MetadataError,
        api.PersistenceError,
        api.ServiceNotReady,
        api.UnsupportedVersionError,
        api.SubscriptionNotFound,
        api.ConsumerNotFound,
        api.InvalidTopicName,
        api.ProducerFenced,
    }
)
"""With these a C++ client's first SUBSCRIBE hangs for 30 s, unless CLOSE_CONSUMER comes with them (reference 4.7)."""


def error_text(error: BaseException) -> str:
    """Return what is said of `error` to the client, cut where it is too long."""
    return str(error)[:TEXT_LENGTH]


def error_code(error: BaseException) -> ErrorCode:
    """Return the code that says `error`; what is not known to be an answer is logged with its traceback."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    log.error("request_failed", exc_info=error)
    return api.UnknownError


def lookup_error_code(error: BaseException) -> ErrorCode:
    """The same for lookups, where ServiceNotReady costs the client its connection: for brokers out of service alone."""
    code = error_code(error)
    if code == api.ServiceNotReady and not isinstance(error, lookup_answers.LookupNotReadyError):
        return api.MetadataError
    return code
