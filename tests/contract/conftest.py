"""What contract suites have in common."""

import pytest

from support.ownership_places import PLACES, Play, play_at


@pytest.fixture(params=PLACES)
def play(request: pytest.FixtureRequest) -> Play:
    """Runs a scenario at one of the places of ownership records."""
    return lambda scenario: play_at(request.param, scenario)
