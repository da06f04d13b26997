"""The numbers that brokers get from their metadata store, and must not get twice."""

from typing import Final

from pulsar_barycenter.ledger.migration.metadata_copy import Numbers

NUMBERS: Final = Numbers(("/counters/ownership-epoch", "/counters/producer-name"), ("/barycenter/schemas",))
"""All but the ids of ledgers: those on bookies are numbers of the bookies. A test compares the paths with those that
brokers use.
"""
