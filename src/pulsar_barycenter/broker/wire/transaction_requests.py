"""Refuses what a client of transactions asks for: the coordinators, and each command about a transaction.

A client with transactions first asks for the number of coordinators, which is the number of partitions of a topic of
the system. Every client ends with the error that is the answer to this. An answer of 0 ends newer clients only: older
Java clients connect to the one coordinator that they assume, and wait for it without an end.

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
"""A partition of this topic stands for each coordinator; nothing is ever stored in it."""


def require_no_coordinator(topic: TopicName) -> None:
    """Check that a topic whose partitions a client asks for does not stand for the coordinators.

    Raises:
        TransactionsNotServedError: it does.
    """
    if topic.partitioned_name == _COORDINATORS:
        raise TransactionsNotServedError


def refuse(command_type: int) -> Callable[[Connection, Any], None]:
    """Return the handler that refuses the transaction command of that type with its own response."""

    def refuse_request(connection: Connection, request: Any) -> None:
        connection.send(commands.refuse_transaction(command_type, request.request_id, NO_TRANSACTIONS))

    return refuse_request
