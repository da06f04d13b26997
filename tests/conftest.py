"""Options of the test suite."""

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more of the machine than of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation", "whole clusters on virtual time (tests/simulation)")
    group.addoption("--sim-seeds", type=int, default=200, metavar="N", help="play the histories of N seeds")
    group.addoption("--sim-first", type=int, default=0, metavar="SEED", help="the first of these seeds")
    group.addoption("--sim-seed", type=int, default=None, metavar="SEED", help="play this one history alone")
    group.addoption("--sim-log", default=None, metavar="FILE", help="with --sim-seed: write the brokers' events here")
    group = parser.getgroup("peer", "Pulsar's own classes beside ours (tests/peer)")
    group.addoption("--peer-cases", type=int, default=2000, metavar="N", help="draw N random cases of each kind")
    group.addoption("--peer-seed", type=int, default=0, metavar="SEED", help="draw them from this seed")
    group.addoption("--peer-required", action="store_true", help="fail, not skip, where Pulsar cannot be had")
