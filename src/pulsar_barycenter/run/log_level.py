"""From which level on a broker's events are told: by its configuration, or by the variable that Pulsar's scripts read.

Source: `PULSAR_LOG_LEVEL` in Pulsar's bin/pulsar, `pulsar.log.level` in its conf/log4j2.yaml.
"""

import logging
from collections.abc import Mapping
from typing import Final

LEVEL_VARIABLE: Final = "PULSAR_LOG_LEVEL"

_LEVELS: Final[Mapping[str, int]] = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
    "off": logging.CRITICAL,
}
"""Pulsar's names of levels."""


def log_level(configured: str, environment: Mapping[str, str]) -> int:
    """Return the level that LEVEL_VARIABLE names, in any case; that of the configuration where it names none."""
    wanted = environment.get(LEVEL_VARIABLE, "").strip().lower()
    return _LEVELS.get(wanted, _LEVELS[configured])
