"""The rules of administrators that were in force, recorded beside the load: `OUT/policies.jsonl`.

A round that is recomputed later needs them: bundles stay because of an isolation policy or an anti-affinity group. A
line is appended when something changed.
"""

from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.load.policies import ClusterPolicies
from pulsar_barycenter.load.snapshot.document import PoliciesDocument
from pulsar_barycenter.observer.recorded_lines import append_record, read_records

POLICIES_FILE: Final = "policies.jsonl"


class RecordedPolicies(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The rules from `at` (epoch ms) on."""

    at: int
    policies: PoliciesDocument = PoliciesDocument()


class PoliciesFile:
    """Appends records of the rules of administrators to the file `policies.jsonl` of a folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / POLICIES_FILE
        self._last: PoliciesDocument | None = None

    def note(self, at_ms: int, policies: ClusterPolicies) -> None:
        """Append the rules with the time `at_ms` (epoch ms), unless they equal those of the previous call on this
        object. The first call always appends.

        Raises:
            OSError: the file cannot be written.
        """
        document = PoliciesDocument.of(policies)
        if document != self._last:
            append_record(self._file, RecordedPolicies(at=at_ms, policies=document))
            self._last = document


def read_policies(file: Path) -> list[RecordedPolicies]:
    """Return the recorded rules in a file, oldest first; an empty list if there is no file.

    Raises:
        msgspec.DecodeError: a line is not such a record.
        OSError: the file cannot be read.
    """
    return read_records(file, RecordedPolicies)
