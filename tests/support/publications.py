"""Publications of the pipeline, as tests read them."""

from collections import deque
from collections.abc import Generator

from pulsar_barycenter.load.reports.publication import PipelinePublication, decode_publication


def decoded(document: bytes) -> PipelinePublication:
    """Return the publication in `document`, without a pause."""
    found: list[PipelinePublication] = []

    def all_columns() -> Generator[None, None, None]:
        found.append((yield from decode_publication(document)))

    deque(all_columns(), maxlen=0)
    return found[0]
