"""Refuses all requests of clients about transactions: for the coordinators, and each command about a transaction.

A client with transactions first asks for the number of coordinators, which is the number of partitions of a system
topic. In every client the transaction then fails with the error that this broker answers. After an answer of 0 only
newer clients fail: older Java clients connect to the one coordinator that they assume, and wait for it for ever.

The code is always NotAllowedError. After TransactionCoordinatorNotFound the Java client sends its request again, and
after other codes it connects to the coordinator again, in both cases for ever.
Source: Pulsar's `TransactionCoordinatorClientImpl` and `TransactionMetaStoreHandler`.
"""

from collections.abc import Callable
from typing import Any, Final

from pulsar_barycenter.broker.errors import NO_TRANSACTIONS, TransactionsNotServedError
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import commands

_COORDINATORS: Final = TopicName.parse("persistent://pulsar/system/transaction_coordinator_assign")
"""Each partition of this topic represents one coordinator; nothing is ever stored in the topic."""


def require_no_coordinator(topic: TopicName) -> None:
    """Check a topic before a client gets its number of partitions. It must not be the topic whose partitions represent
    transaction coordinators, because this broker has no coordinators.

    Raises:
        TransactionsNotServedError: it is that topic.
    """
    if topic.partitioned_name == _COORDINATORS:
        raise TransactionsNotServedError


def refuse(command_type: int) -> Callable[[Connection, Any], None]:
    """Return a handler for transaction commands of the type `command_type`. It refuses each of them, with the response
    that belongs to this type.
    """

    def refuse_request(connection: Connection, request: Any) -> None:
        connection.send(commands.refuse_transaction(command_type, request.request_id, NO_TRANSACTIONS))

    return refuse_request
