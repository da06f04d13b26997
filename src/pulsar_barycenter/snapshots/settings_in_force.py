"""The settings by which the brokers of a data folder decide, as the folder tells.

`barycenter standalone` keeps the broker.conf of each broker in `conf/`, the metadata store what was changed while they
ran, the decision logs by which strategy was shed. What was changed after the time that is asked for was another before,
which no file tells; only the shedding strategy of then is known from the logs.
"""

import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.cluster_logs.data_folder import METADATA
from pulsar_barycenter.cluster_logs.decision_log import read_decisions
from pulsar_barycenter.config.broker_conf import keys, read_conf_text, read_pairs, with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.pulsar_version import PulsarVersion
from pulsar_barycenter.load.strategies import SHEDDING_KEY, Role, catalogue
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.sqlite.reading import read_value
from pulsar_barycenter.snapshots.data_warnings import STALE_MS
from pulsar_barycenter.snapshots.pipeline_tables import tables_below
from pulsar_barycenter.snapshots.snapshot_file import (
    SnapshotFile,
    SnapshotFileError,
    read_snapshot_file,
    snapshot_of_bytes,
)

STANDARD_INPUT: Final = "-"
_CHANGED_PATH: Final = "/admin/configuration"
_LONGEST_PAUSE: Final = "loadBalancerReportUpdateMaxIntervalMinutes"
_SHORTEST_SILENCE_MS: Final = 30_000
"""Reports of brokers that live are written together, but a busy one may be late."""
OF_LEADER: Final = "the leader's settings"
"""What a snapshot that a running cluster was asked for is decided by."""


def read_with_settings(path: Path, at_ms: int | None = None) -> SnapshotFile:
    """Return the snapshot of a file or folder, or of standard input if `path` is `-`.

    One that is of a data folder has the settings of that folder, and the brokers that still reported by them.

    Raises:
        SnapshotFileError: it is nothing that is known, or something is wrong in it.
        ConfigError: a broker.conf in it is none.
        OSError: it cannot be read.
    """
    if str(path) == STANDARD_INPUT:
        if at_ms is not None:
            raise SnapshotFileError(path, "is of one time only", "a data folder to ask for a time")
        return snapshot_of_bytes(sys.stdin.buffer.read(), Path("standard input"))
    found = read_snapshot_file(path, at_ms)
    if not path.is_dir() or found.configuration:
        return found
    configuration, remarks = in_force(path, found.snapshot.taken_at_ms)
    silence_ms = _silence_ms(configuration)
    if silence_ms != STALE_MS:
        found = read_snapshot_file(path, at_ms, silence_ms=silence_ms)
    return replace(found, configuration=configuration, settings="the data folder's settings", remarks=remarks)


def told(found: SnapshotFile, version: PulsarVersion, conf: Path | None = None, changes: Collection[str] = ()) -> str:
    """Return in words whose settings are decided by, and which version of Pulsar they follow."""
    base = f"{found.settings if found.configuration else 'default settings'}, as Pulsar {version}"
    given = [f"those of {conf}"] if conf is not None else []
    given += [change.partition("=")[0].strip() for change in changes]
    return f"{base}, changed by {', '.join(given)}" if given else base


def in_force(folder: Path, at_ms: int) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the settings of the data folder at `folder`, or around it if it is its tables, at a time (epoch ms).

    The first value maps keys to their texts; the second has warnings about them, one sentence each.

    Raises:
        ConfigError: a broker.conf is none.
        OSError: a file cannot be read.
    """
    tables = tables_below(folder)
    data = tables.parent if tables is not None and tables.name == "tables" else folder
    warnings = []
    texts, changed_ms = _of_files(data)
    metadata = data / METADATA
    try:
        found = read_value(metadata, _CHANGED_PATH) if metadata.exists() else None
        if found is not None:
            texts |= msgspec.json.decode(found[0], type=dict[str, str])
            changed_ms = max(changed_ms, found[1])
    except (MetadataError, msgspec.DecodeError) as error:
        warnings.append(f"what was changed while brokers ran is not known: {error}")
    if texts and changed_ms > at_ms:
        told = f"{datetime.fromtimestamp(changed_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        warnings.append(f"settings were changed at {told}, after that time; those of before are not kept")
        strategy = _shedder_of(data, at_ms)
        if strategy:
            texts[SHEDDING_KEY] = strategy
    return {key: text for key, text in texts.items() if key in keys()}, tuple(warnings)


def _silence_ms(configuration: Mapping[str, str]) -> int:
    """Return after which silence (ms) a broker of such settings is gone: twice what it may let pass, and a while."""
    config = with_overrides(BrokerConfig(), {key: text for key, text in configuration.items() if key == _LONGEST_PAUSE})
    return max(round(config.load_balancer_report_update_max_interval_minutes * 2 * 60_000), _SHORTEST_SILENCE_MS)


def _of_files(data: Path) -> tuple[dict[str, str], int]:
    """Return what the files of all brokers say alike, and when the last one was written (epoch ms)."""
    files = sorted((data / "conf").glob("broker-*.conf"))
    each = [read_pairs(read_conf_text(file), str(file)) for file in files]
    alike = dict(set.intersection(*(set(pairs.items()) for pairs in each))) if each else {}
    return alike, max((file.stat().st_mtime_ns // 1_000_000 for file in files), default=0)


def _shedder_of(data: Path, at_ms: int) -> str:
    """Return by which strategy was last shed up to a time; blank if the logs do not say."""
    names = {row.name for row in catalogue() if row.role is Role.SHEDDING}
    told = [record.strategy for record in read_decisions(data) if record.at <= at_ms and record.strategy in names]
    return told[-1] if told else ""
