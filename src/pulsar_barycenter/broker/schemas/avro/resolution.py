"""Decides whether data of a writer's schema can be read with a reader's schema; the package has the table of rules.

Source: the Avro specification, "Schema Resolution", and Java's `Resolver`.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from pulsar_barycenter.broker.schemas.avro.budget import Budget, TooComplexError
from pulsar_barycenter.broker.schemas.avro.defaults import is_valid_default
from pulsar_barycenter.broker.schemas.avro.types import (
    NO_DEFAULT,
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Reference,
    Union,
    kind_of,
    short_name,
)
from pulsar_barycenter.broker.schemas.bounds import MAX_NESTED_PAIRS, MAX_STEPS

Defined: TypeAlias = Primitive | Array | Map | Union | Named

_PROMOTIONS: Final[dict[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""For each primitive type of a writer: the other types with which a reader can read it."""
_MAX_NAMED: Final = 5
"""The maximum number of symbols that a reason lists."""


def why_unreadable(reader: AvroSchema, writer: AvroSchema) -> str | None:
    """Return the reason why data of the schema `writer` cannot be read with the schema `reader`; None if it can be
    read.

    If the comparison would take more than MAX_STEPS steps or MAX_NESTED_PAIRS levels, it ends, and the schemas count as
    not compatible: the reason says that they are too complex.
    """
    try:
        return _Comparison(reader, writer).unreadable(reader.root, writer.root, (), 0)
    except TooComplexError:
        return f"the schemas are too complex to compare: at most {MAX_STEPS} steps and {MAX_NESTED_PAIRS} levels"


Path: TypeAlias = tuple[str, ...]


class _Comparison:
    def __init__(self, reader: AvroSchema, writer: AvroSchema) -> None:
        self._reader = reader
        self._writer = writer
        self._budget = Budget()
        self._has_default: dict[int, bool] = {}
        """Whether the default of a field of the reader is valid, by the id of the field."""
        self._readable: dict[tuple[str, str], None] = {}
        """Pairs of named types, reader's first, that can be read or are being compared, in the order of their start."""

    def unreadable(self, reader: AvroType, writer: AvroType, path: Path, depth: int) -> str | None:
        """Return why data of the type `writer` cannot be read with the type `reader`; None if it can. `path` leads to
        the two types in the schema and is part of that text. `depth` is the depth of nesting of this comparison.
        """
        self._budget.spend(1, depth)
        wanted, written = self._reader.definition(reader), self._writer.definition(writer)
        if isinstance(written, Union):
            for branch in written.branches:
                if (reason := self.unreadable(reader, branch, path, depth + 1)) is not None:
                    return reason
            return None
        if isinstance(wanted, Union):
            return self._in_union(wanted, writer, written, path, depth)
        if isinstance(reader, Reference) and isinstance(writer, Reference):
            return self._named(reader, writer, path, depth)
        return self._unnamed(wanted, written, path, depth)

    def _unnamed(self, reader: Defined, writer: Defined, path: Path, depth: int) -> str | None:
        match reader, writer:
            case Primitive(), Primitive():
                if reader.kind == writer.kind or reader.kind in _PROMOTIONS.get(writer.kind, ()):
                    return None
            case Array(), Array():
                return self.unreadable(reader.items, writer.items, (*path, "[]"), depth + 1)
            case Map(), Map():
                return self.unreadable(reader.values, writer.values, (*path, "{}"), depth + 1)
        return _at(path, f"a reader of {kind_of(reader)} cannot read {kind_of(writer)}")

    def _named(self, reader: Reference, writer: Reference, path: Path, depth: int) -> str | None:
        pair = (reader.name, writer.name)
        if pair in self._readable:
            return None
        self._readable[pair] = None
        wanted, written = self._reader.named[reader.name], self._writer.named[writer.name]
        self._budget.spend(1 + len(wanted.aliases), depth)
        reason: str | None
        match wanted, written:
            case Record(), Record():
                reason = self._record(wanted, written, path, depth)
            case Enum(), Enum():
                self._budget.spend(len(wanted.symbols) + len(written.symbols), depth)
                reason = _enum(wanted, written, path)
            case Fixed(), Fixed():
                reason = _fixed(wanted, written, path)
            case _:
                reason = _at(path, f"a reader of {kind_of(wanted)} cannot read {kind_of(written)}")
        if reason is not None:
            self._forget_since(pair)
        return reason

    def _forget_since(self, pair: tuple[str, str]) -> None:
        """Undo the assumption that a pair of types is readable, because the comparison found that it is not. Undo it
        also for all pairs added after this pair: they may have been found readable only by that assumption.
        """
        while self._readable.popitem()[0] != pair:
            pass

    def _record(self, reader: Record, writer: Record, path: Path, depth: int) -> str | None:
        self._budget.spend(len(writer.fields) + sum(1 + len(field.aliases) for field in reader.fields), depth)
        written = {field.name: field for field in writer.fields}
        for field in reader.fields:
            inner = (*path, field.name)
            source = next((written[name] for name in (field.name, *field.aliases) if name in written), None)
            if source is None:
                reason = self._missing(field, inner, depth)
            else:
                reason = self.unreadable(field.type, source.type, inner, depth + 1)
            if reason is not None:
                return reason
        return None

    def _missing(self, field: Field, path: Path, depth: int) -> str | None:
        """Return why a record cannot be read if the writer does not have this field of the reader. Return None if the
        field has a valid default, which is used then.
        """
        if field.default is NO_DEFAULT:
            return _at(path, "the writer does not have this field, and it has no default")
        if id(field) not in self._has_default:
            valid = is_valid_default(self._reader, field.type, field.default, self._budget, depth)
            self._has_default[id(field)] = valid
        if not self._has_default[id(field)]:
            return _at(path, "the writer does not have this field, and its default is not valid for its type")
        return None

    # ---- unions of the reader ----

    def _in_union(self, reader: Union, writer: AvroType, written: Defined, path: Path, depth: int) -> str | None:
        """Return why data of the writer's type cannot be read with a union of the reader; None if it can. Only one
        branch of the union is tried: the branch that Avro's Java library would choose.
        """
        self._budget.spend(sum(map(self._names_of, reader.branches)), depth)
        chosen = next((branch for branch in reader.branches if self._is_exact(branch, written)), None)
        if chosen is None and isinstance(written, Record):
            chosen = self._matching_record(reader, writer, written, path, depth)
        if chosen is None and isinstance(written, Primitive):
            chosen = _promotion(reader, written)
        if chosen is None:
            return _at(path, f"no branch of the reader's union can read {_told(written)}")
        return self.unreadable(chosen, writer, path, depth + 1)

    def _names_of(self, branch: AvroType) -> int:
        """Return the number of names under which a branch can be found: its own and its aliases."""
        return 1 + len(self._reader.named[branch.name].aliases) if isinstance(branch, Reference) else 1

    def _is_exact(self, branch: AvroType, written: Defined) -> bool:
        wanted = self._reader.definition(branch)
        if isinstance(wanted, Primitive) and isinstance(written, Primitive):
            return wanted.kind == written.kind
        if isinstance(wanted, Record | Enum | Fixed) and isinstance(written, Record | Enum | Fixed):
            return type(wanted) is type(written) and written.name in (wanted.name, *wanted.aliases)
        return type(wanted) is type(written)

    def _matching_record(
        self, reader: Union, writer: AvroType, written: Record, path: Path, depth: int
    ) -> AvroType | None:
        """Return the record branch of the reader's union that is used for a record of the writer: the first one that
        can read it and has the same name without namespace, else the first one of any name that can read it. None if no
        branch can.
        """
        readable = [
            branch
            for branch in reader.branches
            if isinstance(self._reader.definition(branch), Record)
            and self.unreadable(branch, writer, path, depth + 1) is None
        ]
        named = (
            branch
            for branch in readable
            if isinstance(branch, Reference) and short_name(branch.name) == short_name(written.name)
        )
        return next(named, readable[0] if readable else None)


def _promotion(reader: Union, written: Primitive) -> AvroType | None:
    allowed = _PROMOTIONS.get(written.kind, ())
    return next(
        (branch for branch in reader.branches if isinstance(branch, Primitive) and branch.kind in allowed), None
    )


def _enum(reader: Enum, writer: Enum, path: Path) -> str | None:
    if not _is_named(reader, writer, short_name):
        return _at(path, f"the reader has enum {reader.name}, the writer {writer.name}")
    missing = [symbol for symbol in writer.symbols if symbol not in reader.known]
    if missing and reader.default is None:
        shown = ", ".join(missing[:_MAX_NAMED])
        return _at(path, f"enum {reader.name} lacks {shown} of the writer, and has no default")
    return None


def _fixed(reader: Fixed, writer: Fixed, path: Path) -> str | None:
    if not _is_named(reader, writer, str):
        return _at(path, f"the reader has fixed {reader.name}, the writer {writer.name}")
    if reader.size != writer.size:
        return _at(path, f"the reader has fixed {reader.name} of {reader.size} bytes, the writer of {writer.size}")
    return None


def _is_named(reader: Enum | Fixed, writer: Enum | Fixed, form: Callable[[str], str]) -> bool:
    return form(reader.name) == form(writer.name) or writer.name in reader.aliases


def _told(written: Defined) -> str:
    return f"{kind_of(written)} {written.name}" if isinstance(written, Record | Enum | Fixed) else kind_of(written)


def _at(path: Path, reason: str) -> str:
    return f"{'.'.join(path)}: {reason}" if path else reason
