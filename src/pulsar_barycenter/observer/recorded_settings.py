"""The settings of a cluster that its load balancing uses, recorded beside its load: `OUT/settings.jsonl`.

A recording is to be explained later, by the strategy and the thresholds that were in force then. A line is appended
when something changed. Only keys about load balancing are recorded, none of which is a secret.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.load_balancing_config import LoadBalancingConfig
from pulsar_barycenter.config.pulsar_version import COMPATIBILITY_KEY
from pulsar_barycenter.load.policies import DRAINED_KEY
from pulsar_barycenter.observer.recorded_lines import append_record, read_records

SETTINGS_FILE: Final = "settings.jsonl"
_CLUSTER_KEY: Final = "clusterName"


class RecordedSettings(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A record of the cluster's settings, which were in force from `at` (epoch ms) on. `leader` is the broker that was
    the leader then, blank if no broker named one; `settings` maps keys of broker.conf to texts.
    """

    at: int
    cluster: str = ""
    leader: str = ""
    settings: dict[str, str] = {}

    def is_like(self, other: "RecordedSettings") -> bool:
        """Return whether this record and `other` are equal except for their times."""
        return structs.replace(self, at=0) == structs.replace(other, at=0)


@cache
def balancing_keys() -> frozenset[str]:
    """Return the keys of broker.conf that load balancing uses."""
    own = LoadBalancingConfig.__annotations__
    names = frozenset(field.encode_name for field in structs.fields(BrokerConfig) if field.name in own)
    return names | {DRAINED_KEY, COMPATIBILITY_KEY}


def recorded_settings(at_ms: int, runtime: Mapping[str, object], leader: str) -> RecordedSettings:
    """Return the record of a cluster's settings. `runtime` is a broker's answer to `configuration/runtime`, of which
    the keys in `balancing_keys` are recorded; `at_ms` is the time of the answer (epoch ms), `leader` the id of the
    leader, blank if it is not known.
    """
    known = {key: str(value) for key, value in runtime.items() if key in balancing_keys() and value is not None}
    return RecordedSettings(
        at=at_ms, cluster=str(runtime.get(_CLUSTER_KEY, "")), leader=leader, settings=dict(sorted(known.items()))
    )


def append_settings(file: Path, record: RecordedSettings) -> None:
    """Append a record of settings to the file, as `append_record` does.

    Raises:
        OSError: the file cannot be written.
    """
    append_record(file, record)


def read_settings(file: Path) -> list[RecordedSettings]:
    """Return the recorded settings in a file, oldest first; an empty list if there is no file. An incomplete last line
    is left out.

    Raises:
        msgspec.DecodeError: a line is not such a record.
        OSError: the file cannot be read.
    """
    return read_records(file, RecordedSettings)
