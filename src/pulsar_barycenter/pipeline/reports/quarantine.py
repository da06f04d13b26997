"""Keeps input that could not be read, for an operator: `<data>/quarantine`.

quarantine/batch-<id>.jsonl       one line for each: kind, file, reason, and the text of a decision's line
quarantine/<file>                 the report file itself

A refused report or decision never stops the pipeline. If there is no space to keep it, it is still counted and logged.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Literal

import msgspec
import structlog

from pulsar_barycenter.load.reports.load_report import ResourceUsage, decode_report
from pulsar_barycenter.pipeline.storage.files import Storage
from pulsar_barycenter.pipeline.storage.layout import QUARANTINE

log = structlog.get_logger(__name__)

_KEPT_BYTES = 16 * 2**20
_NO_REPORT = (
    "not a load report with brokerId, incarnation, sequence, and a lastUpdate after 1970 and at most one day after the"
    " file was written: check these fields; if lastUpdate is later, set the broker's clock"
)

_NO_NUMBER = "usage, limit and percentage of each resource must be 32-bit floating-point numbers"


class Refused(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A report file, or a line of a decision log (then `text` is the line), that was not accepted as valid, with the
    reason. `file` is the name of the file.
    """

    kind: Literal["report", "decision"]
    file: str
    reason: str
    text: str = ""


def refused_report(storage: Storage, file: str) -> Refused:
    """Return why the report in `file` is not valid, or cannot be read; `file` is its full path or URL."""
    path = storage.path_of(file)
    name = path.rpartition("/")[2]
    try:
        content = storage.read(path)
        if not content:
            return Refused("report", name, "the file is empty")
        report = decode_report(content)
        resources = (report.cpu, report.memory, report.direct_memory, report.bandwidth_in, report.bandwidth_out)
        if not all(_is_share(resource) for resource in resources):
            return Refused("report", name, _NO_NUMBER)
    except msgspec.DecodeError as error:
        return Refused("report", name, str(error))
    except UnicodeDecodeError as error:
        return Refused("report", name, f"not UTF-8: {error.reason}")
    except FileNotFoundError:  # the retention of the report log deleted it
        pass
    except OSError as error:
        return Refused("report", name, f"the file cannot be read: {error.strerror or error}")
    return Refused("report", name, _NO_REPORT)


def _is_share(resource: ResourceUsage) -> bool:
    """Return whether the usage and the limit of a resource, and the usage in percent of the limit, are small enough for
    32-bit floats (Pulsar's type for them). The rule is that of `parsing.report_lines`.
    """
    are_numbers = max(abs(resource.usage), abs(resource.limit)) <= _LARGEST_OF_32_BITS
    return are_numbers and (resource.limit < _LEAST_LIMIT or abs(resource.usage) / resource.limit <= _LARGEST_SHARE)


_LARGEST_OF_32_BITS = 3.4028234663852886e38
_LARGEST_SHARE = 1e36
_LEAST_LIMIT = 1e-45
"""Smaller numbers become 0 in 32 bits."""


def keep_refused(storage: Storage, batch_id: int, refused: Iterable[Refused], files: Iterable[str]) -> None:
    """Write the refused reports and decisions of a batch to the folder for refused input (the quarantine): a list with
    the reasons, and a copy of each report file in `files` (full paths or URLs).

    A batch that runs again replaces these files. Files larger than `_KEPT_BYTES`, and files that are missing or not
    readable, are not copied. If the folder cannot be written, this is logged, and no error is raised. If `refused` is
    empty, nothing is written.
    """
    lines = b"".join(msgspec.json.encode(item) + b"\n" for item in refused)
    if not lines:
        return
    try:
        storage.write(f"{QUARANTINE}/batch-{batch_id:012d}.jsonl", lines)
        for path in map(storage.path_of, files):
            with suppress(FileNotFoundError, PermissionError):
                content = storage.read(path, length=_KEPT_BYTES + 1)
                if len(content) <= _KEPT_BYTES:
                    storage.write(f"{QUARANTINE}/{path.rpartition('/')[2]}", content)
    except OSError as error:
        log.warning("quarantine_not_written", batch_id=batch_id, reason=str(error))


def remove_old(storage: Storage, *, now_s: float, days: int) -> None:
    """Delete the files in the folder for refused reports and decisions (the quarantine) that were written more than
    `days` days before `now_s`: the present time (epoch s) by the clock of the file system.
    """
    for entry in storage.entries(QUARANTINE):
        if now_s - entry.modified_s > days * 86_400:
            storage.delete(f"{QUARANTINE}/{entry.name}")
