"""Maps exceptions to error codes of the binary protocol (ServerError).

The code is chosen by how clients react to it (reference 4.7). After ServiceNotReady, clients look the topic up again.
After TopicNotFound, ConsumerBusy, ProducerBusy and NotAllowedError, the call of the application fails.
"""

from typing import Final, TypeAlias

import structlog

from pulsar_barycenter.broker import errors
from pulsar_barycenter.broker.authorization.errors import AccessError
from pulsar_barycenter.broker.cluster import lookup_answers
from pulsar_barycenter.broker.ownership.serving import NotServedError
from pulsar_barycenter.broker.schemas.errors import SchemaError, SchemaNotFoundError
from pulsar_barycenter.broker.wire.bounds import TEXT_LENGTH
from pulsar_barycenter.ledger.errors import LedgerClosedError, LedgerError, LedgerFencedError, LedgerTerminatedError
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.errors import InvalidNameError, UnservedDomainError
from pulsar_barycenter.protocol import pulsar_api_pb2 as api

log = structlog.get_logger(__name__)

ErrorCode: TypeAlias = api.ServerError.ValueType

_CODES: Final[tuple[tuple[type[Exception], ErrorCode], ...]] = (
    (AccessError, api.AuthorizationError),
    (NotServedError, api.ServiceNotReady),
    (errors.TopicFencedError, api.ServiceNotReady),
    (errors.TopicTerminatedError, api.TopicTerminatedError),
    (LedgerTerminatedError, api.TopicTerminatedError),
    (errors.TopicNotFoundError, api.TopicNotFound),
    (errors.SubscriptionNotFoundError, api.SubscriptionNotFound),
    (errors.SubscriptionBusyError, api.ConsumerBusy),
    (errors.ConsumerAssignError, api.ConsumerAssignError),
    (errors.ProducerBusyError, api.ProducerBusy),
    (errors.ExclusiveProducerError, api.ProducerBusy),
    (errors.TooManyProducersError, api.ProducerBusy),
    (errors.ProducerHeldError, api.ProducerBlockedQuotaExceededError),
    (errors.BacklogQuotaExceededError, api.ProducerBlockedQuotaExceededException),
    (errors.ProducerFencedError, api.ProducerFenced),
    (errors.EncryptionRequiredError, api.MetadataError),
    (errors.MessagePendingError, api.ServiceNotReady),
    (errors.NotAllowedError, api.NotAllowedError),
    (SchemaNotFoundError, api.TopicNotFound),
    (SchemaError, api.IncompatibleSchema),
    (errors.InvalidPositionError, api.MetadataError),
    (UnservedDomainError, api.NotAllowedError),
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
"""After these codes the first SUBSCRIBE of a C++ client hangs for 30 s, unless CLOSE_CONSUMER precedes the error
(reference 4.7)."""


def error_text(error: BaseException) -> str:
    """Return the message of `error` for the client, at most TEXT_LENGTH characters."""
    return str(error)[:TEXT_LENGTH]


def error_code(error: BaseException) -> ErrorCode:
    """Return the protocol's error code for `error`. If the table of codes has none for this exception, return
    UnknownError, and log the exception with its traceback.
    """
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    log.error("request_failed", exc_info=error)
    return api.UnknownError


def lookup_error_code(error: BaseException) -> ErrorCode:
    """Return the code for `error` in the answer to a look-up.

    After ServiceNotReady in such an answer clients close the connection. So ServiceNotReady is returned only if this
    broker cannot answer look-ups at all (LookupNotReadyError); otherwise the code is MetadataError.
    """
    code = error_code(error)
    if code == api.ServiceNotReady and not isinstance(error, lookup_answers.LookupNotReadyError):
        return api.MetadataError
    return code
