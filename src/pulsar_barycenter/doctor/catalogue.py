"""All checks, and how they are run upon a picture.

A new check is a function in `checks` and a row of `CHECKS`: its name, what of a picture it needs (any one part will
do), and whether a second look has to find the same again.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from pulsar_barycenter.doctor.checks import balance, brokers, configuration, ledgers, namespaces, ownership
from pulsar_barycenter.doctor.finding import ClusterFinding, Severity, Unseen
from pulsar_barycenter.doctor.picture import Part, Picture

MOST_FINDINGS: Final = 1_000
"""So many findings of one check are kept; one more says how many there are."""


@dataclass(frozen=True, slots=True)
class Check:
    """`in_motion`: what is found may come of reading a cluster in motion at different moments."""

    name: str
    run: Callable[[Picture], Iterator[ClusterFinding]]
    needs: tuple[Part, ...]
    in_motion: bool = False

    @property
    def tells(self) -> str:
        """What it finds, in a sentence."""
        return (self.run.__doc__ or "").partition("\n")[0].strip()


DRAINED_CHECK: Final = "drained"
_OPTIONAL: Final = frozenset({Part.STORE, Part.WRITTEN_OWNERS, Part.LEDGERS, Part.FILE})
"""Parts that are looked at where an option names them, or where brokers have them at all."""
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
    Check("late-pipeline", balance.late_pipeline, (Part.SNAPSHOT,)),
    Check("silent-pipeline", balance.silent_pipeline, (Part.SNAPSHOT,)),
    Check("ledgers-folder", ledgers.ledgers_folder, (Part.LEDGERS,)),
    Check("unreadable-key", namespaces.unreadable_keys, (Part.STORE,)),
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Findings, the worst first, then in the order of the catalogue and by subject; and what was not looked at."""

    findings: tuple[ClusterFinding, ...]
    unseen: tuple[Unseen, ...]

    def fails(self, fail_at: Severity) -> bool:
        return any(finding.severity.rank >= fail_at.rank for finding in self.findings)


def diagnose(picture: Picture, names: Collection[str] = ()) -> Diagnosis:
    """Run the checks of these names, or all."""
    findings: list[ClusterFinding] = []
    unseen = list(picture.unseen)
    for check in CHECKS:
        if names and check.name not in names:
            continue
        if any(picture.has(part) for part in check.needs):
            findings += _bounded(check, check.run(picture))
        else:
            needed = " nor ".join(part.value for part in check.needs)
            why = f"neither {needed} were read" if " nor " in needed else f"{needed}: not read"
            unseen.append(Unseen(check.name, why, _OPTIONAL.issuperset(check.needs)))
    findings.sort(key=lambda finding: -finding.severity.rank)
    return Diagnosis(tuple(findings), tuple(dict.fromkeys(unseen)))


def confirmed(first: Diagnosis, second: Diagnosis) -> Diagnosis:
    """Return the first diagnosis without what may come of motion and was not found again."""
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
    if len(findings) <= MOST_FINDINGS:
        return findings
    more = len(findings) - MOST_FINDINGS
    rest = ClusterFinding(
        check=check.name,
        severity=findings[MOST_FINDINGS].severity,
        subject=f"{more:,} more",
        sentence="there are more findings of this kind",
        mend="mend those that are told, and look again",
    )
    return [*findings[:MOST_FINDINGS], rest]
