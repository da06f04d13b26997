"""Publications of the pipeline, as tests read them."""

from collections import deque
from collections.abc import Generator
from typing import TypeVar

from pulsar_barycenter.load.reports.publication import PipelinePublication, decode_publication

Found = TypeVar("Found")


def decoded(document: bytes) -> PipelinePublication:
    """Return the publication in `document`, without a pause."""
    return drained(decode_publication(document))


def drained(parts: Generator[None, None, Found]) -> Found:
    """Return what `parts` returns, without its pauses."""
    found: list[Found] = []

    def all_parts() -> Generator[None, None, None]:
        found.append((yield from parts))

    deque(all_parts(), maxlen=0)
    return found[0]
