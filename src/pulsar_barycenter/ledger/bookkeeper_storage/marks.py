"""The custom metadata that brokers store with each ledger on bookies, for the ledger's owners and for tools.

`application` and `component` are those that Pulsar writes, so tools of BookKeeper show who uses a ledger.

Source: Pulsar's `LedgerMetadataUtils`.
"""

from collections.abc import Mapping
from typing import Final

EPOCH: Final = "barycenter-epoch"
CLUSTER: Final = "barycenter-cluster"
_USER: Final = {"application": b"pulsar", "component": b"managed-ledger"}


def marks_of(cluster: str, epoch: int) -> dict[str, bytes]:
    """Return the custom metadata to store with a new ledger: the id of the cluster of brokers, the epoch of the owner,
    and the keys by which BookKeeper's tools show that Pulsar uses the ledger.
    """
    return {**_USER, CLUSTER: cluster.encode(), EPOCH: b"%d" % epoch}


def with_epoch(custom: Mapping[str, bytes], epoch: int) -> dict[str, bytes]:
    """Return a copy of a ledger's custom metadata in which the owner's epoch is `epoch`."""
    return {**custom, EPOCH: b"%d" % epoch}


def epoch_of(custom: Mapping[str, bytes]) -> int:
    """Return the epoch of a ledger's last owner, which is in the ledger's custom metadata; -1 if the metadata has no
    epoch, because another program created the ledger, or if the value is not a number.
    """
    text = custom.get(EPOCH, b"")
    return int(text) if text.isdigit() else -1


def is_of(cluster: str, custom: Mapping[str, bytes]) -> bool:
    """Return whether the ledger with this custom metadata was created by the cluster of brokers with the id `cluster`.
    Several clusters of brokers may use the same bookies.
    """
    return custom.get(CLUSTER) == cluster.encode()
