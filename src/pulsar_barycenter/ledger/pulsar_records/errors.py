"""The errors that say why a record of Pulsar cannot be used."""

from pulsar_barycenter.ledger.errors import LedgerError


class PulsarRecordError(LedgerError):
    """A record in Pulsar's form cannot be read: it is damaged, contradicts itself, exceeds a limit, or needs a library
    that is not installed.
    """


class ForeignRecordError(PulsarRecordError):
    """A record in Pulsar's form can be read, but contains something that Python brokers do not support. Only Java
    brokers can serve the topic.
    """
