"""The errors of this package, and all errors that mean that an input or a grid cannot be used."""

from typing import Final

from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.load.managers import StrategyError
from pulsar_barycenter.pipeline.history import NoHistoryError
from pulsar_barycenter.replay.errors import ReplayInputError


class GridError(RuntimeError):
    """A grid of replays cannot be continued, for example because a process ended unexpectedly; the text says what to
    do.
    """


UNUSABLE: Final = (
    ReplayInputError,
    NoHistoryError,
    WrongFolderError,
    ConfigError,
    StrategyError,
    GridError,
    OSError,
)
"""The text of each says what to do."""
