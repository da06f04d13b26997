"""Ten thousand random sequences, folded by Spark's expressions and by arrays, against the recurrence itself."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pulsar_barycenter.load.reports.windows import LONG_SAMPLES, SHORT_SAMPLES, fold
from pulsar_barycenter.pipeline.batch.refold import refold
from pulsar_barycenter.pipeline.batch.windows import fold_windows
from pulsar_barycenter.pipeline.spark.struct_types import struct_type
from pulsar_barycenter.pipeline.tables.schemas import BUNDLE_SAMPLES, FIGURES, TABLES

pytestmark = pytest.mark.pipeline

SEQUENCES = 10_000
BOUNDARIES = (1, 9, 10, 11, 999, 1000, 1001)
START_US = 1_790_000_000_000_000


def lengths(rng: np.random.Generator) -> np.ndarray:
    """How many samples each sequence has: mostly around the short window, ten times each boundary."""
    found = rng.integers(1, 25, SEQUENCES)
    found[: 10 * len(BOUNDARIES)] = np.repeat(BOUNDARIES, 10)
    return found


def make_samples(rng: np.random.Generator, counts: np.ndarray) -> tuple[pa.Table, np.ndarray]:
    """The samples in the order of time, and their figures by sequence, position and figure; absent ones are 0."""
    figures = rng.exponential(1e4, (SEQUENCES, counts.max(), len(FIGURES))) * rng.integers(0, 2, (SEQUENCES, 1, 1))
    figures += rng.uniform(0, 1, figures.shape)
    position, sequence = np.nonzero(np.arange(counts.max())[:, None] < counts)
    columns = {
        "bundle": pa.array([f"t/n/{number:08x}" for number in sequence]),
        "broker": pa.array(["b"] * len(sequence)),
        "incarnation": pa.array(["i"] * len(sequence)),
        "sequence": position,
        "reported_at": pa.array(START_US + position * 1_000_000, pa.timestamp("us", "UTC")),
        **{name: figures[sequence, position, k] for k, name in enumerate(FIGURES)},
        **dict.fromkeys(("topics", "consumers", "producers"), np.zeros(len(sequence), int)),
    }
    return pa.table(columns).select(BUNDLE_SAMPLES.names).cast(TABLES["bundle_samples"].arrow_schema), figures


def by_expressions(spark: SparkSession, files: list[str]) -> pa.Table:
    return fold_windows(spark.read.schema(struct_type(BUNDLE_SAMPLES)).parquet(*files)).toArrow()


def by_arrays(spark: SparkSession, files: list[str]) -> pa.Table:
    return refold(spark, files, stretches=2).bundles


@pytest.mark.drawn(1)
@pytest.mark.parametrize("folded", [by_expressions, by_arrays])
def test_ten_thousand_sequences_fold_as_one_by_one(
    spark: SparkSession, tmp_path: Path, folded: Callable[[SparkSession, list[str]], pa.Table]
) -> None:
    """Both windows, all figures, to nine digits."""
    rng = np.random.default_rng(11)
    counts = lengths(rng)
    samples, figures = make_samples(rng, counts)
    files = []
    for number, start in enumerate(range(0, len(samples), 60_000)):
        files.append(str(tmp_path / f"batch-{number:012d}.parquet"))
        pq.write_table(samples.slice(start, 60_000), files[-1])
    found = folded(spark, files).sort_by("bundle")
    assert len(found) == SEQUENCES
    for window, size in (("short", SHORT_SAMPLES), ("long", LONG_SAMPLES)):
        average, n = np.zeros((SEQUENCES, len(FIGURES))), np.zeros((SEQUENCES, 1), int)
        for position in range(counts.max()):
            here = counts > position
            average[here], n[here] = fold(average[here], n[here], figures[here, position], size)
        assert np.array_equal(found.column(f"{window}_num_samples").to_numpy(), n[:, 0])
        for k, name in enumerate(FIGURES):
            np.testing.assert_allclose(found.column(f"{window}_{name}").to_numpy(), average[:, k], rtol=1e-9)
