"""Whether numpy is installed, with which load is balanced, and what a broker does without it.

Without numpy a broker serves topics and reports its load as any other. It assigns bundles by their number
(`placement.fewest_bundles`), and it does not shed or split them. So it leads only while no broker that balances is
registered (`broker.cluster.candidacy`).
"""

from importlib.util import find_spec
from typing import Final

from pulsar_barycenter import DISTRIBUTION
from pulsar_barycenter.load.managers import StrategyError

BALANCE_INSTALL: Final = f"pip install '{DISTRIBUTION}[balance]'"
"""The command that installs what a broker needs to balance."""


class BalanceNotInstalledError(StrategyError):
    """The configuration asks for something that needs numpy, and numpy is not installed."""

    def __init__(self, setting: str) -> None:
        super().__init__(f"{setting} needs numpy, which is not installed: {BALANCE_INSTALL}")


def can_balance() -> bool:
    """Return whether numpy is installed, without which a broker cannot balance load; numpy is not imported."""
    return find_spec("numpy") is not None
