"""The histories that a simulation plays: one by its number, or new ones, in proportion to those of `--sim-seeds`."""

from collections.abc import Iterable

import pytest

from support.commit import first_of_commit


def seeds_to_play(config: pytest.Config, share: float = 1.0, once_failed: Iterable[int] = ()) -> list[int]:
    """Return the seed of `--sim-seed` alone, or those in `once_failed` and new ones: `share` of `--sim-seeds`, at
    least one, from `--sim-first` on or from where the commit draws."""
    one, first = config.getoption("--sim-seed"), config.getoption("--sim-first")
    if one is not None:
        return [one]
    first = first_of_commit() if first is None else first
    count = max(1, round(config.getoption("--sim-seeds") * share))
    return list(dict.fromkeys((*once_failed, *range(first, first + count))))
