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
    """Replace each line of a file that names the tenant by the result of the function `line` for it; return whether the
    file changed.

    Lines that another process appends meanwhile are kept.
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
    """Return the lines of a file without the tenant's names."""
    if names.tenant.encode() not in content:
        return content
    return b"".join(_clean(found, names, line) for found in content.splitlines(keepends=True))


def _clean(found: bytes, names: TenantNames, line: Line) -> bytes:
    if names.tenant.encode() not in found:
        return found
    text = found.decode(_ENCODING, _ERRORS)
    return line(text, names).encode(_ENCODING, _ERRORS) if names.mentions(text) else found


def report_line(text: str, names: TenantNames) -> str:
    """Return a line of JSON, such as a load report, without the tenant's entries."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return names.redacted(text)
    end = text[len(text.rstrip("\r\n")) :]
    return names.redacted(msgspec.json.encode(names.pruned(value)).decode()) + end


def decision_line(text: str, names: TenantNames) -> str:
    """Return an empty text for a decision about a bundle of the tenant, and other lines with its names redacted."""
    try:
        bundle = msgspec.json.decode(text, type=_Decision).bundle
    except (msgspec.DecodeError, UnicodeError):
        bundle = ""
    return "" if names.owns(bundle) else names.redacted(text)


class _Decision(msgspec.Struct):
    bundle: str = ""


def refused_line(text: str, names: TenantNames) -> str:
    """Return an empty text: a refused line that names the tenant is deleted."""
    return ""


def clean_publication(storage: LocalStorage, names: TenantNames) -> int:
    """Remove the tenant's bundles from the publication of the pipeline; return how many bundles were removed.

    The changes that follow the publication are deleted, because they may have the tenant's bundles. Readers continue
    with the next whole publication. A publication that cannot be decoded is deleted, too.
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
