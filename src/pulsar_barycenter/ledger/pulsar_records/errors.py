"""The errors that say why a record of Pulsar cannot be used."""

from pulsar_barycenter.ledger.errors import LedgerError


class PulsarRecordError(LedgerError):
    """A stored record cannot be read: it is damaged, contradicts itself, exceeds a limit, or needs a library that is
    not installed.
    """


class ForeignRecordError(PulsarRecordError):
    """A record was read, but contains something that our managed ledgers do not support. Only Java brokers can serve
    the topic.
    """
