"""The result of a check: severity, subject, meaning, and how to repair the problem."""

import enum

import msgspec


class Severity(enum.StrEnum):
    """How bad a finding is; the severities are listed with the lowest first."""

    INFO = "info"
    """Normal in many clusters, but useful to know."""
    WARNING = "warning"
    """Something works, but not as it should, or not for long."""
    ERROR = "error"
    """Something does not work, or a broker acts on wrong data."""
    CRITICAL = "critical"
    """Topics cannot be served at all, or two brokers may serve one."""

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class ClusterFinding(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A problem of a cluster. `subject` is a broker, bundle, namespace, key or path; `mend` is the repair."""

    check: str = ""
    severity: Severity
    subject: str
    sentence: str
    mend: str


class Unseen(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the cluster that was not checked, and why. With `is_optional`, the part is only checked if an option
    names it: that it was not checked is no sign of a problem.
    """

    what: str
    why: str
    is_optional: bool = False


def found(severity: Severity, subject: str, sentence: str, mend: str) -> ClusterFinding:
    return ClusterFinding(severity=severity, subject=subject, sentence=sentence, mend=mend)
