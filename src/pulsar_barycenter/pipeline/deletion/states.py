"""Writes the pipeline's states without a tenant to a separate folder, and replaces the old states by them at the end.

A state identifies each decision log by its first line and has the offset up to which it was read. Both change when
lines are deleted. So all new states are complete before the first log is rewritten: then no step needs data that an
earlier step changed.
"""

from itertools import accumulate

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from pulsar_barycenter.pipeline.deletion.names import TenantNames
from pulsar_barycenter.pipeline.deletion.text_files import clean_lines, decision_line
from pulsar_barycenter.pipeline.reports.decision_files import log_name
from pulsar_barycenter.pipeline.storage.files import LocalStorage
from pulsar_barycenter.pipeline.storage.layout import DECISIONS, DELETION, STATE
from pulsar_barycenter.pipeline.stream.state import BatchMemory, PriorState, StateFolder

_SCRATCH = f"{DELETION}/data"


def make_states(storage: LocalStorage, names: TenantNames) -> None:
    """Write a copy of every stored state of the pipeline, without the tenant's data, to a temporary folder of the
    deletion. Delete earlier content of that folder first. The states themselves are not changed.
    """
    storage.delete(_SCRATCH)
    scratch = LocalStorage(storage.root / _SCRATCH)
    scratch.make_folder(STATE)
    kept, made = StateFolder(storage), StateFolder(scratch)
    logs = _read_logs(storage, scratch, names)
    for batch_id in kept.batch_ids():
        state = kept.before(batch_id + 1)
        made.write(batch_id, _without(state, names, logs))


def put_in_place(storage: LocalStorage) -> int:
    """Replace the stored states of the pipeline by the copies that `make_states` wrote. If the copies are not there,
    because an earlier call has already moved them, nothing changes. Return the number of stored states.
    """
    made = f"{_SCRATCH}/{STATE}"
    if storage.exists(made):
        storage.delete(STATE)
        (storage.root / made).rename(storage.root / STATE)
    return len(StateFolder(storage).batch_ids())


_Logs = dict[str, tuple[str, dict[int, int]]]
"""For each decision log: its new name, empty if no line is left; and its new line offsets, keyed by the old ones."""


def _read_logs(storage: LocalStorage, scratch: LocalStorage, names: TenantNames) -> _Logs:
    found: _Logs = {}
    for entry in storage.entries(DECISIONS):
        name = "" if ".jsonl" not in entry.name or entry.is_folder else log_name(storage, entry)
        if not name:
            continue
        lines = storage.read(f"{DECISIONS}/{entry.name}").splitlines(keepends=True)
        cleaned = [clean_lines(line, names, decision_line) for line in lines]
        if cleaned == lines:
            continue
        path = f"{DECISIONS}/{entry.name}"
        scratch.write(path, b"".join(cleaned))
        (new,) = (each for each in scratch.entries(DECISIONS) if each.name == entry.name)
        places = zip(accumulate(map(len, lines), initial=0), accumulate(map(len, cleaned), initial=0), strict=True)
        found[name] = (log_name(scratch, new), dict(places))
        scratch.delete(path)
    return found


def _without(state: PriorState, names: TenantNames, logs: _Logs) -> PriorState:
    pruned = msgspec.convert(names.pruned(msgspec.to_builtins(state.memory)), BatchMemory)
    offsets: dict[str, int] = {}
    for name, offset in state.memory.decision_offsets.items():
        new, places = logs.get(name, (name, {offset: offset}))
        if new:
            # an offset within a line that a crash truncated: the part that was read is read again
            offsets[new] = places[max((place for place in places if place <= offset), default=0)]
    memory = msgspec.structs.replace(pruned, decision_offsets=offsets)
    owned = pc.starts_with(state.bundles.column("bundle"), f"{names.tenant}/")
    held = state.held
    if held is not None:
        held = pa.Table.from_pylist(names.pruned(held.to_pylist()), schema=held.schema)
    return PriorState(state.batch_id, memory, state.bundles.filter(pc.invert(owned)), held)
