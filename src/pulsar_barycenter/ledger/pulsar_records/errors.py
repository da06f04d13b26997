"""Why records of Pulsar cannot be used."""

from pulsar_barycenter.ledger.errors import LedgerError


class PulsarRecordError(LedgerError):
    """A stored record cannot be read: it is damaged, contradicts itself, exceeds a bound, or needs a part that is not
    installed.
    """


class ForeignRecordError(PulsarRecordError):
    """A record was read, but it has facts that our managed ledgers cannot keep. The topic is one for Java brokers."""
