"""Options of the test suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation", "whole clusters on virtual time (tests/simulation)")
    group.addoption("--sim-seeds", type=int, default=200, metavar="N", help="play the histories of N seeds")
    group.addoption("--sim-first", type=int, default=0, metavar="SEED", help="the first of these seeds")
    group.addoption("--sim-seed", type=int, default=None, metavar="SEED", help="play this one history alone")
    group.addoption("--sim-log", default=None, metavar="FILE", help="with --sim-seed: write the brokers' events here")
