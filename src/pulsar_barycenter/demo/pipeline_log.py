"""What the pipeline's log says of its batches."""

from pathlib import Path

import msgspec


class _Batch(msgspec.Struct):
    event: str
    lag_seconds: float | None = None


def pipeline_lags_s(log: Path) -> list[float]:
    """Return, for each batch that had reports, the seconds from its oldest report to its publication."""
    lags = []
    decoder = msgspec.json.Decoder(_Batch)
    for line in log.read_bytes().splitlines():
        if b'"pipeline_batch"' in line:
            batch = decoder.decode(line)
            if batch.lag_seconds is not None:
                lags.append(batch.lag_seconds)
    return lags
