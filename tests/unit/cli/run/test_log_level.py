"""The level from which a broker logs events."""

import logging

import pytest

from pulsar_barycenter.run.process_log import log_level


@pytest.mark.parametrize(
    ("configured", "variable", "level"),
    [
        ("info", None, logging.INFO),
        ("debug", None, logging.DEBUG),
        ("warn", None, logging.WARNING),
        ("error", "", logging.ERROR),
        ("error", " Debug ", logging.DEBUG),
        ("info", "TRACE", logging.DEBUG),
        ("info", "off", logging.CRITICAL),
        ("warn", "loud", logging.WARNING),
    ],
)
def test_the_variable_comes_before_the_key(configured: str, variable: str | None, level: int) -> None:
    environment = {} if variable is None else {"PULSAR_LOG_LEVEL": variable}
    assert log_level(configured, environment) == level
