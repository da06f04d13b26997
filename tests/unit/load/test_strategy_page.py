"""The page of a strategy of another package."""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from pulsar_barycenter.strategies import Shedder, strategy_page


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    gap: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.1
    most: Annotated[int, msgspec.Meta(gt=0)] = 3
    spared: list[str] = []


@dataclass(frozen=True)
class AcmeShedder(Shedder[None]):
    """Sheds the heaviest bundle.

    Only of the fullest broker.
    """

    name = "AcmeShedder"


@dataclass(frozen=True)
class Silent:
    gap: float
    name = "Silent"


def test_a_page_has_the_docstrings_and_the_settings_with_their_bounds() -> None:
    page = strategy_page(AcmeShedder, Settings)
    assert page.startswith(
        "# AcmeShedder\n\nThe page of a strategy of another package.\n\nSheds the heaviest bundle.\n"
    )
    assert "Only of the fullest broker." in page
    assert page.splitlines()[-3:] == [
        "| `gap` | float | `0.1` | ≥ 0, < 1 |",
        "| `most` | int | `3` | > 0 |",
        "| `spared` | list | `[]` | – |",
    ]


def test_a_page_without_settings_or_docstring_says_so() -> None:
    page = strategy_page(Silent)
    assert page.endswith("## Settings\n\nIt has no settings.\n")
    assert "Silent(" not in page
