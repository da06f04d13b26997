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
    """Return the custom metadata of a new ledger that this cluster of brokers creates."""
    return {**_USER, CLUSTER: cluster.encode(), EPOCH: b"%d" % epoch}


def with_epoch(custom: Mapping[str, bytes], epoch: int) -> dict[str, bytes]:
    """Return a copy of a ledger's custom metadata with the epoch of another owner."""
    return {**custom, EPOCH: b"%d" % epoch}


def epoch_of(custom: Mapping[str, bytes]) -> int:
    """Return the epoch of a ledger's last owner from its custom metadata; -1 if another program created it, or if the
    value is not a number.
    """
    text = custom.get(EPOCH, b"")
    return int(text) if text.isdigit() else -1


def is_of(cluster: str, custom: Mapping[str, bytes]) -> bool:
    """Return whether this cluster of brokers created the ledger with this custom metadata. Several clusters may use the
    same bookies.
    """
    return custom.get(CLUSTER) == cluster.encode()
