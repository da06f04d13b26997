"""Lists all checks and runs them on a picture.

A new check is a function in `checks` and a row of `CHECKS`: its name, the parts of a picture of which it needs at least
one, and whether a second reading of the cluster must confirm its findings.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from pulsar_barycenter.doctor.checks import balance, brokers, configuration, ledgers, namespaces, ownership
from pulsar_barycenter.doctor.finding import ClusterFinding, Severity, Unseen
from pulsar_barycenter.doctor.picture import Part, Picture

MAX_FINDINGS: Final = 1_000
"""The number of findings of one check that are kept; one more finding has the number of the others."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of the doctor, a row of the catalogue. `in_motion`: a finding of this check may be the effect of a change
    that happened while the cluster was read.
    """

    name: str
    run: Callable[[Picture], Iterator[ClusterFinding]]
    needs: tuple[Part, ...]
    in_motion: bool = False

    @property
    def tells(self) -> str:
        """The problem that the check finds, in a sentence: the first line of the docstring of the function `run`."""
        return (self.run.__doc__ or "").partition("\n")[0].strip()


DRAINED_CHECK: Final = "drained"
NOT_READ: Final = ": not read"
"""The end of the reason why a check was left out, if the check needs only one part. The reason begins with the name of
that part.
"""
_OPTIONAL: Final = frozenset({Part.STORE, Part.WRITTEN_OWNERS, Part.LEDGERS, Part.FILE})
"""Parts that are read only if an option names them, or if the brokers have them."""
_OWNERS: Final = (Part.BROKERS, Part.STORE)

CHECKS: Final = (
    Check("silent-broker", brokers.silent_brokers, (Part.BROKERS,)),
    Check("registration", brokers.registration, (Part.BROKERS,), in_motion=True),
    Check("leader", brokers.leadership, (Part.BROKERS,), in_motion=True),
    Check("clock", brokers.clocks, (Part.BROKERS,)),
    Check("owned-twice", ownership.owned_twice, (Part.BROKERS,), in_motion=True),
    Check("unowned", ownership.unowned, _OWNERS),
    Check("owner-gone", ownership.owner_gone, (Part.WRITTEN_OWNERS,), in_motion=True),
    Check("owner-differs", ownership.owner_differs, (Part.WRITTEN_OWNERS,), in_motion=True),
    Check("unknown-bundle", ownership.unknown_bundles, (Part.BROKERS,), in_motion=True),
    Check("stuck-record", ownership.stuck_records, (Part.STORE,), in_motion=True),
    Check("tiling", namespaces.tiling, (Part.NAMESPACES,)),
    Check("boundary-copy", namespaces.boundary_copies, (Part.STORE,), in_motion=True),
    Check("stale-bundles", namespaces.stale_bundles, (Part.BROKERS,), in_motion=True),
    Check("stale-policies", namespaces.stale_policies, (Part.BROKERS,), in_motion=True),
    Check("few-bundles", namespaces.few_bundles, (Part.NAMESPACES,)),
    Check("unknown-override", configuration.unknown_overrides, (Part.SETTINGS, Part.STORE)),
    Check("stale-override", configuration.overrides_in_force, (Part.SETTINGS,), in_motion=True),
    Check("settings-apart", configuration.apart, (Part.SETTINGS,)),
    Check("no-authorization", configuration.without_authorization, (Part.SETTINGS,)),
    Check(DRAINED_CHECK, brokers.drained, (Part.SETTINGS,)),
    Check("configuration", configuration.configuration, (Part.SETTINGS,)),
    Check("unparsed-setting", configuration.unparsed_settings, (Part.SETTINGS,)),
    Check("unknown-key", configuration.unknown_keys, (Part.FILE,)),
    Check("preallocation", balance.preallocations, (Part.SNAPSHOT,), in_motion=True),
    Check("old-report", balance.old_reports, (Part.SNAPSHOT, Part.STORE)),
    Check("absurd-report", balance.absurd_reports, (Part.SNAPSHOT, Part.STORE)),
    Check("idle-shedder", balance.idle_shedder, (Part.SETTINGS,)),
    Check("cool-down", balance.cool_down, (Part.SNAPSHOT,)),
    Check("no-numpy", balance.without_numpy, (Part.SNAPSHOT,)),
    Check("late-pipeline", balance.late_pipeline, (Part.SNAPSHOT,)),
    Check("silent-pipeline", balance.silent_pipeline, (Part.SNAPSHOT,)),
    Check("ledgers-folder", ledgers.ledgers_folder, (Part.LEDGERS,)),
    Check("ledgers-on-bookies", ledgers.ledgers_on_bookies, (Part.STORE,), in_motion=True),
    Check("foreign-topic", ledgers.foreign_topics, (Part.STORE,)),
    Check("unreadable-key", namespaces.unreadable_keys, (Part.STORE,)),
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings of the checks, sorted by severity (worst first), order of the catalogue and subject; and the parts
    of the cluster that were not checked.
    """

    findings: tuple[ClusterFinding, ...]
    unseen: tuple[Unseen, ...]

    def fails(self, fail_at: Severity) -> bool:
        return any(finding.severity.rank >= fail_at.rank for finding in self.findings)


def diagnose(picture: Picture, names: Collection[str] = ()) -> Diagnosis:
    """Run the named checks on a picture, all if no name is given."""
    findings: list[ClusterFinding] = []
    unseen = list(picture.unseen)
    for check in CHECKS:
        if names and check.name not in names:
            continue
        if any(picture.has(part) for part in check.needs):
            findings += _bounded(check, check.run(picture))
        else:
            needed = " nor ".join(part.value for part in check.needs)
            why = f"neither {needed} were read" if " nor " in needed else f"{needed}{NOT_READ}"
            unseen.append(Unseen(check.name, why, _OPTIONAL.issuperset(check.needs)))
    findings.sort(key=lambda finding: -finding.severity.rank)
    return Diagnosis(tuple(findings), tuple(dict.fromkeys(unseen)))


def confirmed(first: Diagnosis, second: Diagnosis) -> Diagnosis:
    """Return the first diagnosis; a finding of an `in_motion` check is left out unless the second diagnosis has it,
    too.
    """
    again = {(finding.check, finding.subject) for finding in second.findings}
    moving = moving_names()
    return Diagnosis(
        tuple(
            finding
            for finding in first.findings
            if finding.check not in moving or (finding.check, finding.subject) in again
        ),
        first.unseen,
    )


def needs_second_look(diagnosis: Diagnosis) -> bool:
    moving = moving_names()
    return any(finding.check in moving for finding in diagnosis.findings)


def moving_names() -> frozenset[str]:
    return frozenset(check.name for check in CHECKS if check.in_motion)


def _bounded(check: Check, found: Iterable[ClusterFinding]) -> list[ClusterFinding]:
    findings = [msgspec.structs.replace(finding, check=check.name) for finding in found]
    findings.sort(key=lambda finding: (-finding.severity.rank, finding.subject))
    if len(findings) <= MAX_FINDINGS:
        return findings
    more = len(findings) - MAX_FINDINGS
    rest = ClusterFinding(
        check=check.name,
        severity=findings[MAX_FINDINGS].severity,
        subject=f"{more:,} more",
        sentence="there are more findings of this kind",
        mend="repair those that are listed, and run the check again",
    )
    return [*findings[:MAX_FINDINGS], rest]
