"""The short and long windows of every bundle, in closed form.

The definition is the recurrence of `pulsar_barycenter.load.reports.windows`, one sample per bundle per load report:

    n <- min(n + 1, N);  avg <- ((n - 1) * avg + x) / n

Unrolled over k new samples x_1..x_k after a prior count n0 and average a0, it is a weighted sum. The first
m = min(k, max(0, N - n0)) samples fill the window, and each counts as much as those before it. Each of the others
decays the average by r = (N - 1) / N:

    avg = D * (n0 * a0 + x_1 + ... + x_m) / (n0 + m)  +  sum over j > m of r^(k - j) * x_j / N,   D = r^(k - m)
    n   = min(N, n0 + k)

So one `groupBy` with a weight per row computes it, without a Python function and without a loop. Every weight is a
power of r with an exponent of at least 0, so it cannot overflow. A weight that underflows is 0.

Samples of a bundle are ordered by (reported_at, broker, incarnation, sequence). If no broker reports a bundle for more
than `HISTORY_GAP_MS`, its windows restart with its next sample. The gap is much longer than 15 minutes, the longest
time between two reports of a healthy broker. So a bundle keeps its history when it moves.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS, LONG_SAMPLES, SHORT_SAMPLES
from pulsar_barycenter.pipeline.tables.schemas import FIGURES, WINDOWS

WINDOW_SAMPLES: Final = {"short": SHORT_SAMPLES, "long": LONG_SAMPLES}

_COUNTS = tuple(f"{window}_num_samples" for window in WINDOWS)
_AVERAGES = tuple(f"{window}_{figure}" for window in WINDOWS for figure in FIGURES)
_IN_ORDER: Final = ("is_sample", "reported_at", "broker", "incarnation", "sequence")


def fold_windows(
    samples: DataFrame,
    prior: DataFrame | None = None,
    *,
    history_gap_ms: int = HISTORY_GAP_MS,
) -> DataFrame:
    """Update the average rates of bundles (their windows) with `samples`.

    Input: `samples` has the columns BUNDLE_SAMPLES, without repeats, in any order. `prior` has BUNDLE_STATE, the state
    before these samples, one row per bundle; None: no samples came before. After more than `history_gap_ms` without a
    sample, earlier samples of a bundle no longer count.

    Output: BUNDLE_STATE, one row for each bundle of either input, and `new_samples`, the number of the bundle's rows in
    `samples`. If that is 0, the row is the one in `prior`. `as_of` is the time of the bundle's newest sample.
    """
    rows = _as_rows(samples) if prior is None else _as_rows(samples).union(_prior_as_rows(prior))
    return (
        rows.transform(_number_samples)
        .transform(_cut_at_gaps, history_gap_ms=history_gap_ms)
        .transform(_weigh)
        .transform(_sum_up)
    )


def _as_rows(samples: DataFrame) -> DataFrame:
    """Return the samples with the columns of `_prior_as_rows`. The rates of a sample are there twice, once for the
    short and once for the long window.
    """
    return samples.select(
        "bundle",
        F.lit(1).alias("is_sample"),
        *("reported_at", "broker", "incarnation", "sequence", "topics"),
        *(F.lit(0).alias(f"prior_{count}") for count in _COUNTS),
        *(F.col(figure).alias(f"{window}_{figure}") for window in WINDOWS for figure in FIGURES),
    )


def _prior_as_rows(prior: DataFrame) -> DataFrame:
    """Return the rows of `prior` (one per bundle: its state before the new samples) in the form of samples. `is_sample`
    is 0, so that sorting puts the row before all samples of its bundle. The two can then be combined by a union,
    without a join.
    """
    return prior.select(
        "bundle",
        F.lit(0).alias("is_sample"),
        F.col("as_of").alias("reported_at"),
        F.lit("").alias("broker"),
        F.lit("").alias("incarnation"),
        F.lit(0).cast("bigint").alias("sequence"),
        "topics",
        *(F.col(count).alias(f"prior_{count}") for count in _COUNTS),
        *_AVERAGES,
    )


def _number_samples(rows: DataFrame) -> DataFrame:
    """Number the rows of each bundle in a new column `position`: 0 for its row with the prior state, 1 for its first
    sample, and so on. Add the column `silence_ms`, the time since the previous row of the bundle; null for its first
    row.
    """
    in_order = Window.partitionBy("bundle").orderBy(*_IN_ORDER)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    silence_ms = F.unix_millis("reported_at") - F.unix_millis(F.lag("reported_at").over(in_order))
    return rows.select("*", F.sum("is_sample").over(so_far).alias("position"), silence_ms.alias("silence_ms"))


def _cut_at_gaps(rows: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """Drop all rows of a bundle before its last gap: a time of more than `history_gap_ms` between two rows of the
    bundle. Add two columns: `j` numbers the remaining samples of the bundle from 1 (0 for the prior row), `k` is their
    count.
    """
    bundle = Window.partitionBy("bundle")
    is_cut = F.col("silence_ms") > history_gap_ms
    last_before_cut = F.when(is_cut, F.col("position") - 1).otherwise(F.lit(0))
    is_kept_prior = (F.col("is_sample") == 0) & ~F.coalesce("was_cut", F.lit(False))
    return (
        rows.select(
            "*",
            F.max(last_before_cut).over(bundle).alias("cut"),
            F.max(is_cut).over(bundle).alias("was_cut"),
            F.max("position").over(bundle).alias("new_samples"),
            *(F.max(f"prior_{count}").over(bundle).alias(f"all_{count}") for count in _COUNTS),
        )
        .select(
            "*",
            (F.col("position") - F.col("cut")).alias("j"),
            (F.col("new_samples") - F.col("cut")).alias("k"),
            *(
                F.when(F.col("was_cut"), F.lit(0)).otherwise(F.col(f"all_{count}")).alias(f"before_{count}")
                for count in _COUNTS
            ),
        )
        .where((F.col("j") > 0) | is_kept_prior)
    )


def _weigh(rows: DataFrame) -> DataFrame:
    return rows.select("*", *(_weight(window).alias(f"{window}_weight") for window in WINDOWS))


def _weight(window: str) -> Column:
    """Return a column: the factor of a row in the weighted sum that is the average of a window. `window` is "short" or
    "long". The formula is in the docstring of the module; the variable `before` is its n0, and `growth` its m.
    """
    size = WINDOW_SAMPLES[window]
    decay = F.lit((size - 1) / size)
    j, k, before = F.col("j"), F.col("k"), F.col(f"before_{window}_num_samples")
    growth = F.least(k, F.greatest(F.lit(0), size - before))
    is_sample = F.col("is_sample") == 1
    decayed = F.pow(decay, k - growth)
    return (
        F.when(is_sample & (j > growth), F.pow(decay, k - j) / size)
        .when(is_sample, decayed / (before + growth))
        .when(before == 0, F.lit(0.0))
        .otherwise(decayed * before / (before + growth))
    )


def _sum_up(rows: DataFrame) -> DataFrame:
    # A prior row of a bundle without new samples has k = 0, so its weight is 1: it stays the same to the last bit.
    sums = (
        F.sum(F.col(f"{window}_weight") * F.col(f"{window}_{figure}")).alias(f"{window}_{figure}")
        for window in WINDOWS
        for figure in FIGURES
    )
    newest = (
        F.max("reported_at").alias("as_of"),
        F.max_by("topics", "j").alias("topics"),
        F.max("new_samples").alias("new_samples"),
    )
    summed = rows.groupBy("bundle").agg(*sums, *(_num_samples(window) for window in WINDOWS), *newest)
    columns = (name for window in WINDOWS for name in (f"{window}_num_samples", *(f"{window}_{f}" for f in FIGURES)))
    return summed.select("bundle", "as_of", *columns, "topics", "new_samples")


def _num_samples(window: str) -> Column:
    """Return an aggregate: how many samples the average of a window has. It is the sum of earlier and new samples, but
    at most the window's size. `window` is "short" or "long".
    """
    name = f"{window}_num_samples"
    found = F.max(f"before_{name}") + F.max("k")
    return F.least(F.lit(WINDOW_SAMPLES[window]), found).cast("int").alias(name)
