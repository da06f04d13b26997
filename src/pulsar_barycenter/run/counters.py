"""The numbers that brokers get from their metadata store, and must not get twice."""

from typing import Final

from pulsar_barycenter.broker.ownership.locks import EPOCH_COUNTER
from pulsar_barycenter.broker.schemas.schema_records import SCHEMAS_ROOT
from pulsar_barycenter.broker.wire.producer_names import PRODUCER_NAME_COUNTER
from pulsar_barycenter.ledger.migration.metadata_copy import Numbers

NUMBERS: Final = Numbers((EPOCH_COUNTER, PRODUCER_NAME_COUNTER), (SCHEMAS_ROOT,))
"""All but the ids of ledgers: those on bookies are numbers of the bookies."""
