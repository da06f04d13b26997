"""What a micro-batch did, without Spark, so that commands of the light install can read it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What one batch did. `lag_ms` and `newest_lag_ms` are None for a batch that published nothing.

    `reports` counts those accepted, late ones included; `bundles` those published; `held` the reports that wait.
    """

    batch_id: int
    reports: int
    samples: int
    bundles: int
    duplicates: int
    corrupt_files: tuple[str, ...]
    lag_ms: int | None
    newest_lag_ms: int | None
    seconds: float
    as_of: int = 0
    late: int = 0
    held: int = 0
    decisions: int = 0
    corrupt_decisions: int = 0
