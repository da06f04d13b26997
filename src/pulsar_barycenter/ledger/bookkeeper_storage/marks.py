"""What is stored with each ledger for its owners and for tools, as custom metadata of its key.

`application` and `component` are those that Pulsar writes, so tools of BookKeeper show who uses a ledger.

Source: Pulsar's `LedgerMetadataUtils`.
"""

from collections.abc import Mapping
from typing import Final

EPOCH: Final = "barycenter-epoch"
CLUSTER: Final = "barycenter-cluster"
_USER: Final = {"application": b"pulsar", "component": b"managed-ledger"}


def marks_of(cluster: str, epoch: int) -> dict[str, bytes]:
    """Return the custom metadata of a new ledger of this cluster of brokers."""
    return {**_USER, CLUSTER: cluster.encode(), EPOCH: b"%d" % epoch}


def with_epoch(custom: Mapping[str, bytes], epoch: int) -> dict[str, bytes]:
    """Return custom metadata with the epoch of another owner."""
    return {**custom, EPOCH: b"%d" % epoch}


def epoch_of(custom: Mapping[str, bytes]) -> int:
    """Return the epoch of a ledger's last owner; -1 if another program created it, or the value is no number."""
    text = custom.get(EPOCH, b"")
    return int(text) if text.isdigit() else -1


def is_of(cluster: str, custom: Mapping[str, bytes]) -> bool:
    """Return whether this cluster of brokers created a ledger; several may use the same bookies."""
    return custom.get(CLUSTER) == cluster.encode()
