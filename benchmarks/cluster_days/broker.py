"""`python -m benchmarks.cluster_days.broker ARGUMENT ...`: run `barycenter` where time passes faster.

LeastDisturbance has three times that no key of broker.conf sets: how long moves are free after a change of brokers, for
how long its budget saves, and its longest recent estimate. They are shortened as the keys are.
"""

from benchmarks.manager_comparison.managers import FASTER
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.load.shedding.least_disturbance import budget, least_disturbance_settings


def shorten(faster: float) -> None:
    """Divide the times of LeastDisturbance that are not settings."""
    budget.FREE_MS = round(budget.FREE_MS / faster)  # type: ignore[misc]
    budget._SAVED_MIN /= faster  # type: ignore[misc]
    least_disturbance_settings._RECENT_MIN /= faster  # type: ignore[misc]


if __name__ == "__main__":
    shorten(FASTER)
    main()
