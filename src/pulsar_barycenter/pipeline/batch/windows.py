"""The short and long windows of every bundle, in closed form.

The definition is the recurrence of `pulsar_barycenter.load.reports.windows`, one sample per bundle per load report:

    n <- min(n + 1, N);  avg <- ((n - 1) * avg + x) / n

Unrolled over k new samples x_1..x_k after a prior count n0 and average a0, it is a weighted sum. The first
m = min(k, max(0, N - n0)) samples still fill the window, each counting as much as those before it; the others decay it
by r = (N - 1) / N each:

    avg = D * (n0 * a0 + x_1 + ... + x_m) / (n0 + m)  +  sum over j > m of r^(k - j) * x_j / N,   D = r^(k - m)
    n   = min(N, n0 + k)

So one grouping with a weight per row does it, without a Python function and without a loop. Every weight is a power of
r with an exponent that is not negative, so nothing overflows; what underflows weighs nothing.

Samples of a bundle are ordered by (reported_at, broker, incarnation, sequence). A bundle that nobody reported for
longer than `HISTORY_GAP_MS` starts anew with its next sample. The gap is well above 15 minutes, the longest a healthy
broker goes without a report, and long enough for any bundle to be moved without losing its history.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name PySpark users know it by

from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS, LONG_SAMPLES, SHORT_SAMPLES
from pulsar_barycenter.pipeline.tables.schemas import FIGURES, WINDOWS

WINDOW_SAMPLES: Final = {"short": SHORT_SAMPLES, "long": LONG_SAMPLES}

_COUNTS = tuple(f"{window}_num_samples" for window in WINDOWS)
_AVERAGES = tuple(f"{window}_{figure}" for window in WINDOWS for figure in FIGURES)
_BUNDLE_IN_ORDER = "(partition by bundle order by is_sample, reported_at, broker, incarnation, sequence)"
_RUNNING = f"{_BUNDLE_IN_ORDER[:-1]} rows between unbounded preceding and current row)"
_WHOLE_BUNDLE = "(partition by bundle)"


def fold_windows(
    samples: DataFrame,
    prior: DataFrame | None = None,
    *,
    history_gap_ms: int = HISTORY_GAP_MS,
) -> DataFrame:
    """Fold samples into what is known of their bundles.

    Input: BUNDLE_SAMPLES without repeats, in any order; `prior` BUNDLE_STATE, one row per bundle. Output: BUNDLE_STATE
    of every bundle of either, plus `new_samples`, how many samples it had (0: its row is the prior one).

    `as_of` is the time of the newest sample of the bundle.
    """
    rows = _as_rows(samples) if prior is None else _as_rows(samples).union(_prior_as_rows(prior))
    return (
        rows.transform(_number_samples)
        .transform(_cut_at_gaps, history_gap_ms=history_gap_ms)
        .transform(_weigh)
        .transform(_sum_up)
    )


def _as_rows(samples: DataFrame) -> DataFrame:
    """A sample counts in both windows; the columns are those of `_prior_as_rows`."""
    return samples.selectExpr(
        *("bundle", "1 as is_sample", "reported_at", "broker", "incarnation", "sequence", "topics"),
        *(f"0 as prior_{count}" for count in _COUNTS),
        *(f"{figure} as {window}_{figure}" for window in WINDOWS for figure in FIGURES),
    )


def _prior_as_rows(prior: DataFrame) -> DataFrame:
    """The prior state is one more row of its bundle, ahead of all samples, so that no join is needed."""
    return prior.selectExpr(
        *("bundle", "0 as is_sample", "as_of as reported_at", "'' as broker", "'' as incarnation", "0L as sequence"),
        "topics",
        *(f"{count} as prior_{count}" for count in _COUNTS),
        *_AVERAGES,
    )


def _number_samples(rows: DataFrame) -> DataFrame:
    """Add `position` (1 for the first sample, 0 for the prior row) and the silence before each row in ms."""
    return rows.selectExpr(
        "*",
        f"sum(is_sample) over {_RUNNING} as position",
        f"unix_millis(reported_at) - unix_millis(lag(reported_at) over {_BUNDLE_IN_ORDER}) as silence_ms",
    )


def _cut_at_gaps(rows: DataFrame, *, history_gap_ms: int) -> DataFrame:
    """Drop what lies before a bundle's last long silence; `j` counts the rest from 1 and `k` is the last `j`."""
    is_cut = f"silence_ms > {history_gap_ms}"
    return (
        rows.selectExpr(
            "*",
            f"max(case when {is_cut} then position - 1 else 0 end) over {_WHOLE_BUNDLE} as cut",
            f"max({is_cut}) over {_WHOLE_BUNDLE} as was_cut",
            f"max(position) over {_WHOLE_BUNDLE} as new_samples",
            *(f"max(prior_{count}) over {_WHOLE_BUNDLE} as all_{count}" for count in _COUNTS),
        )
        .selectExpr(
            "*",
            "position - cut as j",
            "new_samples - cut as k",
            *(f"case when was_cut then 0 else all_{count} end as before_{count}" for count in _COUNTS),
        )
        .where("j > 0 or (is_sample = 0 and not coalesce(was_cut, false))")
    )


def _weigh(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("*", *(f"{_weight(window)} as {window}_weight" for window in WINDOWS))


def _weight(window: str) -> str:
    """The weight of a row by the formula above; `before` is n0."""
    size = WINDOW_SAMPLES[window]
    before = f"before_{window}_num_samples"
    decay = f"{(size - 1) / size!r}D"
    growth = f"least(k, greatest(0, {size} - {before}))"
    return (
        f"case when is_sample = 1 and j > {growth} then power({decay}, k - j) / {size}"
        f" when is_sample = 1 then power({decay}, k - {growth}) / ({before} + {growth})"
        f" when {before} = 0 then 0D"
        f" else power({decay}, k - {growth}) * {before} / ({before} + {growth}) end"
    )


def _sum_up(rows: DataFrame) -> DataFrame:
    # A prior row of a bundle without new samples has k = 0, hence weight 1: it is handed on bit by bit.
    sums = (
        f"sum({window}_weight * {window}_{figure}) as {window}_{figure}" for window in WINDOWS for figure in FIGURES
    )
    counts = (
        f"cast(least({WINDOW_SAMPLES[window]}, max(before_{window}_num_samples) + max(k)) as int)"
        f" as {window}_num_samples"
        for window in WINDOWS
    )
    summed = rows.groupBy("bundle").agg(*(F.expr(text) for text in (*sums, *counts, *_NEWEST)))
    columns = (name for window in WINDOWS for name in (f"{window}_num_samples", *(f"{window}_{f}" for f in FIGURES)))
    return summed.select("bundle", "as_of", *columns, "topics", "new_samples")


_NEWEST = (
    "max(reported_at) as as_of",
    "max_by(topics, j) as topics",
    "max(new_samples) as new_samples",
)
