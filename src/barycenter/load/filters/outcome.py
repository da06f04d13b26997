"""What a filter is asked and answers.

A filter only removes: what it keeps is a subset of the candidates it was given. Candidates are flags over the rows of
`LoadSnapshot.brokers`.
"""

from dataclasses import dataclass
from functools import cached_property

import msgspec

from barycenter.load.reasons import Alternative, Code, Compared
from barycenter.load.snapshot.load_snapshot import Flags, Floats, Integers, LoadSnapshot, namespace_of


class FilterFailedError(Exception):
    """The filter could not judge the candidates; the text says why."""


@dataclass(frozen=True)
class PlacementRequest:
    """The bundle to place; `non_persistent` says that it holds non-persistent topics."""

    bundle: str
    non_persistent: bool = False

    @cached_property
    def namespace(self) -> str:
        return namespace_of(self.bundle)


class FilterOutcome(msgspec.Struct, frozen=True, gc=False):
    """`kept` of the candidates `among`; why the others went, with each broker's figure, in `unit`, and its line.

    `kept` may be `among` itself, the very object, if nobody went. `codes` say it of the brokers in these rows, the
    first that names a row, and `code` of all others. `note` is told whoever is chosen. `ignored`: the filter would have
    left nobody, so it kept all.
    """

    among: Flags
    kept: Flags
    code: Code
    settings: tuple[str, ...] = ()
    what: str = ""
    figures: Floats | Integers | None = None
    relation: str = ">"
    against: str = "limit"
    limit: float = 0.0
    unit: str = ""
    ignored: bool = False
    codes: tuple[tuple[Flags, Code], ...] = ()
    note: str = ""

    @property
    def removed(self) -> Flags:
        """The candidates that went."""
        return self.among & ~self.kept

    def alternative(self, snapshot: LoadSnapshot, broker: int) -> Alternative:
        """Say why the broker in that row was removed."""
        compared = None
        if self.figures is not None:
            figure = float(self.figures[broker])
            compared = Compared(self.what, figure, self.relation, self.against, self.limit, self.unit)
        code = next((code for rows, code in self.codes if rows[broker]), self.code)
        return Alternative(snapshot.brokers.names[broker], code, compared)
