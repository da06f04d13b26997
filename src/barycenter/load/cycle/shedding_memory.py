"""What a shedder remembers, as a document and as the value that the shedder takes.

| shedder | remembers |
|---|---|
| ThresholdShedder, RangeThresholdShedder | the smoothed usage of each broker |
| AvgShedder | how many rounds running the gap of a broker's pair was there |
| TransferShedder | for how many rounds running brokers were out of balance, and when bundles left which broker |
| others | nothing |
"""

from collections.abc import Mapping

from barycenter.load.shedding import avg_shedder, range_threshold_shedder, threshold_shedder, transfer_shedder
from barycenter.load.shedding.avg_shedder import HitCounts
from barycenter.load.shedding.transfer_shedder import TransferMemory
from barycenter.load.snapshot.document import MemoryDocument
from barycenter.load.strategies import SheddingMemory


def memory_document(memory: SheddingMemory) -> MemoryDocument:
    """Return what is in `memory`, the value that a shedder returned; of an unknown kind nothing."""
    if isinstance(memory, HitCounts):
        return MemoryDocument(low_hits=dict(memory.low), high_hits=dict(memory.high))
    if isinstance(memory, TransferMemory):
        return MemoryDocument(rounds=memory.hits, unloaded_at=dict(memory.unloaded_at_ms))
    if isinstance(memory, Mapping):
        return MemoryDocument(usage={str(broker): float(score) for broker, score in memory.items()})
    return MemoryDocument()


def shedding_memory(document: MemoryDocument, shedder: str) -> SheddingMemory:
    """Return the part of `document` that the shedder of that name remembers, None if it remembers nothing."""
    if shedder == avg_shedder.NAME:
        return HitCounts(document.low_hits, document.high_hits)
    if shedder in (threshold_shedder.NAME, range_threshold_shedder.NAME):
        return document.usage
    if shedder == transfer_shedder.NAME:
        return TransferMemory(document.rounds, document.unloaded_at)
    return None
