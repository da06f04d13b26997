"""The settings that the brokers of a data folder had at a time, read from that folder.

`conf/` has the broker.conf of each broker of a `barycenter standalone`. The metadata store has the dynamic settings.
Both hold present values only: of a setting that changed after the time in question, the former value is not known. The
exception is the shedding strategy, which the decision logs name.
"""

import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.cluster_logs.data_folder import METADATA
from pulsar_barycenter.cluster_logs.decision_log import read_decisions
from pulsar_barycenter.config.broker_conf import keys, read_conf_text, read_pairs, with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.pulsar_version import PulsarVersion
from pulsar_barycenter.load.strategies import SHEDDING_KEY, Role, catalogue
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.sqlite.reading import read_value
from pulsar_barycenter.snapshots.data_warnings import STALE_MS
from pulsar_barycenter.snapshots.snapshot_file import (
    SnapshotFile,
    SnapshotFileError,
    read_snapshot_file,
    snapshot_of_bytes,
)
from pulsar_barycenter.snapshots.table_folder import tables_below

STANDARD_INPUT: Final = "-"
_CHANGED_PATH: Final = "/admin/configuration"
_REPORT_INTERVAL_KEY: Final = "loadBalancerReportUpdateMaxIntervalMinutes"
_MIN_SILENCE_MS: Final = 30_000
"""Brokers write their reports at about the same time, but a busy broker may be late."""
OF_LEADER: Final = "the leader's settings"
"""The origin of the settings that come with the snapshot of a running cluster."""


def read_with_settings(path: Path, at_ms: int | None = None) -> SnapshotFile:
    """Return the snapshot of a file or folder, or of standard input if `path` is `-`. `at_ms` (epoch ms) selects a time
    in the past, as for `read_snapshot_file`.

    The snapshot of a data folder comes with the settings of that folder; they also say how long a broker may be silent
    and still be in the snapshot.

    Raises:
        SnapshotFileError: the content has no known form, or is not valid.
        ConfigError: a broker.conf in the folder is not valid.
        OSError: a file cannot be read.
    """
    if str(path) == STANDARD_INPUT:
        if at_ms is not None:
            raise SnapshotFileError(
                path, "this input has the load of one time only", "give a data folder to choose a time"
            )
        return snapshot_of_bytes(sys.stdin.buffer.read(), Path("standard input"))
    found = read_snapshot_file(path, at_ms)
    if not path.is_dir() or found.configuration:
        return found
    configuration, remarks = in_force(path, found.snapshot.taken_at_ms)
    silence_ms = _silence_ms(configuration)
    if silence_ms != STALE_MS:
        found = read_snapshot_file(path, at_ms, silence_ms=silence_ms)
    return replace(found, configuration=configuration, settings="the data folder's settings", remarks=remarks)


def settings_in_words(
    found: SnapshotFile, version: PulsarVersion, conf: Path | None = None, changes: Collection[str] = ()
) -> str:
    """Return a text that says where the settings of the snapshot `found` come from, which keys `conf` and `changes`
    override, and which version of Pulsar is followed.
    """
    base = f"{found.settings if found.configuration else 'default settings'}, as Pulsar {version}"
    given = [str(conf)] if conf is not None else []
    given += [change.partition("=")[0].strip() for change in changes]
    return f"{base}, changed by {', '.join(given)}" if given else base


def in_force(folder: Path, at_ms: int) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the settings of a data folder at a time (epoch ms); `folder` is that folder, or its `tables`.

    The first value maps keys to their texts; the second has warnings about them, one sentence each. Earlier values of
    settings are not stored: if settings changed after `at_ms`, their present texts are returned, with a warning. The
    exception is the shedding strategy: the last one that the decision logs name up to `at_ms` is returned, if they name
    one.

    Raises:
        ConfigError: a broker.conf is not valid.
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
            texts |= decode_json(found[0], dict[str, str])
            changed_ms = max(changed_ms, found[1])
    except (MetadataError, msgspec.DecodeError) as error:
        warnings.append(f"cannot read the dynamic settings, so they are missing here: {error}")
    if texts and changed_ms > at_ms:
        changed_at = f"{datetime.fromtimestamp(changed_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        warnings.append(
            f"settings changed at {changed_at}, after that time; the former values are not known, so the present ones"
            " are used"
        )
        strategy = _shedder_of(data, at_ms)
        if strategy:
            texts[SHEDDING_KEY] = strategy
    return {key: text for key, text in texts.items() if key in keys()}, tuple(warnings)


def _silence_ms(configuration: Mapping[str, str]) -> int:
    """Return the silence (ms) after which a broker counts as stopped: twice its report interval, 30 s at least."""
    config = with_overrides(
        BrokerConfig(), {key: text for key, text in configuration.items() if key == _REPORT_INTERVAL_KEY}
    )
    return max(round(config.load_balancer_report_update_max_interval_minutes * 2 * 60_000), _MIN_SILENCE_MS)


def _of_files(data: Path) -> tuple[dict[str, str], int]:
    """Return the settings that the broker.conf files of all brokers have in common, and when the last of these files
    was written (epoch ms; 0 if there are none).
    """
    files = sorted((data / "conf").glob("broker-*.conf"))
    settings = [read_pairs(read_conf_text(file), str(file)) for file in files]
    common = dict(set.intersection(*(set(pairs.items()) for pairs in settings))) if settings else {}
    return common, max((file.stat().st_mtime_ns // 1_000_000 for file in files), default=0)


def _shedder_of(data: Path, at_ms: int) -> str:
    """Return the name of the last shedding strategy in the decision logs up to `at_ms` (epoch ms, inclusive); blank if
    they name none.
    """
    names = {row.name for row in catalogue() if row.role is Role.SHEDDING}
    used = [record.strategy for record in read_decisions(data) if record.at <= at_ms and record.strategy in names]
    return used[-1] if used else ""
