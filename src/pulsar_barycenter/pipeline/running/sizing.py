"""Estimates what a pipeline needs for a given load of reports: disk, memory, time of a batch, and options for the job.

The constants are measured (`benchmarks/results/pipeline.md`; docs/pipeline-sizing.md has the formulas in words), on two
cores at 2 to 3 GHz. An estimate is right within a factor of two, so the recommended options leave that much room.
"""

import math
from dataclasses import dataclass
from typing import Final

DAY_S: Final = 86_400
ARCHIVE_DAYS: Final = 2
"""Days for which the archive keeps reports that were read."""

_REPORT_BYTES: Final = 290
_SAMPLE_ROW_BYTES: Final = 40
_AVERAGES_ROW_BYTES: Final = 75
_STATE_BYTES: Final = 140 * 2
_PUBLICATION_BYTES: Final = 200 * 3
_PYTHON_BYTES: Final = 180 * 2**20
_PYTHON_BYTES_PER_BUNDLE: Final = 700
_PYTHON_BYTES_PER_SAMPLE: Final = 1024
_JAVA_BYTES: Final = 550 * 2**20
_JAVA_BYTES_PER_SAMPLE: Final = 1000
_BATCH_S: Final = 0.4
_BATCH_S_PER_SAMPLE: Final = 14e-6
_WHOLE_S_PER_BUNDLE: Final = 1e-6
_WHOLE_EVERY_S: Final = 30
_START_S_PER_BUNDLE: Final = 6e-6

_TRIGGERS_S: Final = (1, 2, 5, 10, 30, 60)
_MOST_SAMPLES: Final = 500_000
"""The maximum number of samples of a batch in the recommendation: more need more than 1 GiB in Java."""
_SHARDED_FROM_SAMPLES: Final = 300_000
"""Samples of a batch from which `--fold sharded` is recommended: 100,000 took longer by shard, 500,000 less."""
_SHARDED_FROM_CORES: Final = 2
_HEAP_STEP: Final = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Workload:
    """The load reports that a cluster writes: the number of its brokers, the number of its bundles, and the seconds
    between two reports of the same broker.

    Raises:
        ValueError: a number is not positive, or not finite.
    """

    brokers: int
    bundles: int
    interval_s: float

    def __post_init__(self) -> None:
        for name, value in (("brokers", self.brokers), ("bundles", self.bundles), ("interval", self.interval_s)):
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be positive, not {value:g}")

    @property
    def samples_per_second(self) -> float:
        return self.bundles / self.interval_s


@dataclass(frozen=True, slots=True)
class Sizing:
    """What the pipeline needs for a workload. Sizes are in bytes, times in seconds; `tables` is the size of the tables
    for all days that are kept.

    A batch has on average `batch_samples` samples, and takes `batch_s`. It has the reports that arrive between two
    triggers, or a single report if reports are rarer than triggers. A batch that writes the complete publication or
    state, instead of only the changes, takes `whole_s` more. `utilization` is the fraction of the time in which a batch
    runs: at 1 and above the pipeline cannot keep up.
    """

    samples_per_day: float
    report_log_per_day: float
    archive: float
    tables_per_day: float
    tables: float
    state: float
    publication: float
    memory_python: float
    memory_java: float
    trigger_s: int
    batch_samples: float
    batch_s: float
    whole_s: float
    start_s: float
    utilization: float
    driver_memory: str
    max_files: int
    fold: str

    @property
    def disk(self) -> float:
        return self.archive + self.tables + self.state + self.publication

    @property
    def keeps_up(self) -> bool:
        return self.utilization < 1

    @property
    def options(self) -> str:
        """The recommended options of `barycenter pipeline run`, as one text."""
        options = f"--trigger-seconds {self.trigger_s} --max-files {self.max_files}"
        return f"{options} --driver-memory {self.driver_memory} --fold {self.fold}"


def estimate(load: Workload, *, retention_days: int, cores: int) -> Sizing:
    """Return what the pipeline needs for `load` on `cores` cores of Spark, if its tables are kept for `retention_days`
    days.

    The recommended time between two triggers is the shortest one that is at least twice the time of a batch. If there
    is none, it is the longest one to choose from.
    """
    samples_per_day = load.samples_per_second * DAY_S
    trigger_s = next((s for s in _TRIGGERS_S if _batch_s(load, s) <= s / 2), _TRIGGERS_S[-1])
    batch_samples = _batch_samples(load, trigger_s)
    per_report = load.bundles / load.brokers
    rows_of_averages = min(1.0, load.interval_s / trigger_s)  # a bundle has one row of averages in a batch
    tables_per_day = samples_per_day * (_SAMPLE_ROW_BYTES + _AVERAGES_ROW_BYTES * rows_of_averages)
    report_log_per_day = samples_per_day * _REPORT_BYTES
    max_files = max(1, min(500, int(_MOST_SAMPLES / max(1.0, per_report))))
    largest = min(batch_samples, max_files * per_report)
    memory_java = _JAVA_BYTES + _JAVA_BYTES_PER_SAMPLE * largest
    is_large = batch_samples >= _SHARDED_FROM_SAMPLES and cores >= _SHARDED_FROM_CORES
    whole_s = load.bundles * _WHOLE_S_PER_BUNDLE
    return Sizing(
        samples_per_day=samples_per_day,
        report_log_per_day=report_log_per_day,
        archive=report_log_per_day * ARCHIVE_DAYS,
        tables_per_day=tables_per_day,
        tables=tables_per_day * retention_days,
        state=load.bundles * _STATE_BYTES,
        publication=load.bundles * _PUBLICATION_BYTES,
        memory_python=_PYTHON_BYTES + load.bundles * _PYTHON_BYTES_PER_BUNDLE + largest * _PYTHON_BYTES_PER_SAMPLE,
        memory_java=memory_java,
        trigger_s=trigger_s,
        batch_samples=batch_samples,
        batch_s=_batch_s(load, trigger_s),
        whole_s=whole_s,
        start_s=load.bundles * _START_S_PER_BUNDLE,
        utilization=_batch_s(load, trigger_s) * _batches_per_second(load, trigger_s) + whole_s / _WHOLE_EVERY_S,
        driver_memory=f"{_heap_mib(largest)}m",
        max_files=max_files,
        fold="sharded" if is_large else "driver",
    )


def _batches_per_second(load: Workload, trigger_s: float) -> float:
    return min(1 / trigger_s, load.brokers / load.interval_s)


def _batch_samples(load: Workload, trigger_s: float) -> float:
    return load.samples_per_second / _batches_per_second(load, trigger_s)


def _batch_s(load: Workload, trigger_s: float) -> float:
    return _BATCH_S + _batch_samples(load, trigger_s) * _BATCH_S_PER_SAMPLE


def _heap_mib(samples: float) -> int:
    """Return the size of Java's heap (MiB) for batches of up to this number of samples: 512 MiB, and more in steps of
    256 MiB for large batches.
    """
    heap = 512 * 2**20 + max(0.0, samples - 100_000) * _JAVA_BYTES_PER_SAMPLE
    return math.ceil(heap / _HEAP_STEP) * _HEAP_STEP // 2**20
