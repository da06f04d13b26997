"""What a check found: how bad it is, whom it concerns, what it means, and the mend."""

import enum

import msgspec


class Severity(enum.StrEnum):
    """From the least to the worst."""

    INFO = "info"
    """It is normal in many clusters, and worth knowing."""
    WARNING = "warning"
    """It works, but not as it should, or not for long."""
    ERROR = "error"
    """Something does not work, or a broker goes by what is not so."""
    CRITICAL = "critical"
    """Topics cannot be served at all, or two brokers may serve one."""

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class ClusterFinding(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`subject` is a broker, bundle, namespace, key or path; `mend` a command or a sentence."""

    check: str = ""
    severity: Severity
    subject: str
    sentence: str
    mend: str


class Unseen(msgspec.Struct, frozen=True, rename="camel"):
    """Something that was not looked at, and why not. `is_optional`: it is looked at only where an option names it, so
    that it says nothing about the cluster."""

    what: str
    why: str
    is_optional: bool = False


def found(severity: Severity, subject: str, sentence: str, mend: str) -> ClusterFinding:
    return ClusterFinding(severity=severity, subject=subject, sentence=sentence, mend=mend)
