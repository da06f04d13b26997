"""Removes a tenant's names from text files: reports, decision logs, the quarantine, the publication and the status.

Lines that do not name the tenant stay the same to the byte. A file keeps its modification time, which retention uses.
"""

import os
from collections.abc import Callable, Iterator
from itertools import compress

import msgspec

from pulsar_barycenter.load.reports.publication import BUNDLE_COLUMNS, PipelinePublication, encode_publication
from pulsar_barycenter.pipeline.deletion.names import TenantNames
from pulsar_barycenter.pipeline.storage.files import LocalStorage
from pulsar_barycenter.pipeline.storage.layout import PUBLICATION

_ENCODING = "utf-8"
_ERRORS = "surrogateescape"

Line = Callable[[str, TenantNames], str]
"""A function that returns a line without the tenant's names. If it returns an empty text, the line is removed from the
file.
"""


def rewrite_lines(storage: LocalStorage, path: str, names: TenantNames, line: Line) -> bool:
    """Remove a tenant's names from the file `path`; return whether the file changed.

    `line` is called with each line that contains a name of the tenant, and returns the new line, or an empty text to
    delete the line. Lines that another process appends in the meantime are kept, and treated in the same way.
    """
    content = storage.read(path)
    changed = clean_lines(content, names, line)
    if changed == content:
        return False
    file = storage.root / path
    stat = file.stat()
    appended = storage.read(path, offset=len(content))
    storage.write(path, changed + clean_lines(appended, names, line))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return True


def clean_lines(content: bytes, names: TenantNames, line: Line) -> bytes:
    """Return the lines in `content` without the tenant's names. `line` is called with each line that contains such a
    name, and returns the new line, or an empty text to delete the line. All other lines stay the same.
    """
    if names.tenant.encode() not in content:
        return content
    return b"".join(_clean(found, names, line) for found in content.splitlines(keepends=True))


def _clean(found: bytes, names: TenantNames, line: Line) -> bytes:
    if names.tenant.encode() not in found:
        return found
    text = found.decode(_ENCODING, _ERRORS)
    return line(text, names).encode(_ENCODING, _ERRORS) if names.mentions(text) else found


def report_line(text: str, names: TenantNames) -> str:
    """Return the line `text`, which is JSON such as a load report, without what belongs to the tenant (see
    `TenantNames.pruned`). If the line is not JSON, return it with the tenant's names redacted.
    """
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return names.redacted(text)
    end = text[len(text.rstrip("\r\n")) :]
    return names.redacted(msgspec.json.encode(names.pruned(value)).decode()) + end


def decision_line(text: str, names: TenantNames) -> str:
    """Return an empty text if the line is a decision about a bundle of the tenant, so that it is deleted. Otherwise
    return the line with the tenant's names redacted.
    """
    try:
        bundle = msgspec.json.decode(text, type=_Decision).bundle
    except (msgspec.DecodeError, UnicodeError):
        bundle = ""
    return "" if names.owns(bundle) else names.redacted(text)


class _Decision(msgspec.Struct):
    bundle: str = ""


def refused_line(text: str, names: TenantNames) -> str:
    """Return an empty text: every line of the quarantine that contains a name of the tenant is deleted."""
    return ""


def clean_publication(storage: LocalStorage, names: TenantNames) -> int:
    """Remove the tenant's bundles from the pipeline's publication (the file with the newest averages, which brokers
    read). Return how many bundles were removed.

    The files of changes that follow the publication are deleted, because they may have the tenant's bundles. A reader
    gets no new averages until the pipeline writes the next whole publication. A publication that cannot be decoded is
    deleted, too.
    """
    folder, _, name = PUBLICATION.rpartition("/")
    for entry in storage.entries(folder):
        if entry.name.startswith(f"{name}.after-"):
            storage.delete(f"{folder}/{entry.name}")
    try:
        published = msgspec.json.decode(storage.read(PUBLICATION), type=PipelinePublication)
    except FileNotFoundError:
        return 0
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        storage.delete(PUBLICATION)
        return 0
    kept = [not names.owns(bundle) for bundle in published.bundle]
    if all(kept):
        return 0
    columns = {name: list(compress(getattr(published, name), kept)) for name in ("bundle", *BUNDLE_COLUMNS)}
    storage.write(PUBLICATION, encode_publication(msgspec.structs.replace(published, **columns)))
    return len(kept) - sum(kept)


def files_below(storage: LocalStorage, folder: str) -> Iterator[str]:
    """Yield the files in a folder and its subfolders, in the order of names."""
    for entry in storage.entries(folder):
        path = f"{folder}/{entry.name}"
        if entry.is_folder:
            yield from files_below(storage, path)
        else:
            yield path
