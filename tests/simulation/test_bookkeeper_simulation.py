"""Seeded histories of one ledger: its writer, racing recoveries, bookies and a store that lose, delay and repeat.

.venv/bin/python -m pytest tests/simulation/test_bookkeeper_simulation.py --sim-seeds 40000   (plays 100; half of N)
.venv/bin/python -m pytest tests/simulation/test_bookkeeper_simulation.py -k rules_hold --sim-seed 4711   (one again)

Each rule S1 to S8 (docs/decisions/0101) is also broken on purpose: the histories must find it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from pulsar_barycenter.bookkeeper.errors import DigestMismatchError
from pulsar_barycenter.bookkeeper.machines import recovery, writer
from pulsar_barycenter.bookkeeper.machines.actions import StoredLedger, SwapMetadata
from pulsar_barycenter.bookkeeper.machines.add_window import AddWindow
from pulsar_barycenter.bookkeeper.machines.entry_read import EntryRead
from pulsar_barycenter.bookkeeper.machines.last_confirmed import LastConfirmedRead
from pulsar_barycenter.bookkeeper.machines.recovery import Recovery
from pulsar_barycenter.bookkeeper.machines.writer import Writer, WriterState
from pulsar_barycenter.bookkeeper.wire.digests import Entry, EntryCodec
from support.bookkeeper_world import BrokenRuleError, World
from support.simulation.seeds import seeds_to_play

pytestmark = pytest.mark.simulation

ONCE_FAILED = (7011451,)
"""Seeds that found a fault; they are always played."""
MOST_SEEDS = 1_500
"""Within so many histories a broken rule is found."""


def test_the_rules_hold_whatever_befalls_a_ledger(pytestconfig: pytest.Config) -> None:
    for seed in seeds_to_play(pytestconfig, share=0.5, once_failed=ONCE_FAILED):
        try:
            World(seed).play()
        except Exception as error:
            error.add_note(f"replay: -k rules_hold --sim-seed {seed}")
            raise


def test_all_of_it_befalls_them() -> None:
    """So the histories above test something."""
    happened: Counter[str] = Counter()
    reported = 0
    for seed in range(100):
        world = World(seed)
        world.play()
        happened += world.happened
        reported += world.reported + 1
    assert reported > 500
    expected = (
        *("lost", "late", "doubled", "damaged bytes", "bookie stopped or started", "lost compare-and-set"),
        *("ensemble change", "killed writer", "killed recoverer", "racing recoveries", "rewritten segment"),
        *("Recovery ended", "Writer ended", "Recovery: RecoveryError", "Writer: WriterFencedError"),
        "Writer: TooFewBookiesError",
    )
    assert [event for event in expected if happened[event] < 2] == []


def played_alike(seed: int) -> tuple[int, Counter[str], bytes]:
    world = World(seed)
    world.play()
    return world.reported, world.happened, world.store.value


def test_the_same_seed_plays_the_same_history() -> None:
    assert played_alike(11) == played_alike(11)


def reports_before_enough_have_it(patch: pytest.MonkeyPatch) -> None:
    begin = AddWindow.__init__

    def with_one_less(self, ensemble, write_quorum, ack_quorum, **state):  # type: ignore[no-untyped-def]
        begin(self, ensemble, write_quorum, max(0, ack_quorum - 1), **state)

    patch.setattr(AddWindow, "__init__", with_one_less)


def takes_over_without_a_fence(patch: pytest.MonkeyPatch) -> None:
    """Reads of entries fence as well, and would make up for one that does not cover the ledger."""
    for asking in (LastConfirmedRead, EntryRead):
        patch.setattr(asking, "__init__", _plain(asking.__init__))


def _plain(begin: Callable[..., None]) -> Callable[..., None]:
    def plain(*arguments: object, is_fencing: bool = False, **more: object) -> None:
        begin(*arguments, is_fencing=False, **more)

    return plain


def closes_at_the_last_confirmed_of_a_bookie(patch: pytest.MonkeyPatch) -> None:
    begin = Recovery._begin_restoring

    def without_reading(self):  # type: ignore[no-untyped-def]
        begin(self)
        self._is_at_end = True
        return self._restore()

    patch.setattr(Recovery, "_begin_restoring", without_reading)


def begins_a_segment_at_a_reported_entry(patch: pytest.MonkeyPatch) -> None:
    change = Writer._change_if_needed

    def one_sooner(self):  # type: ignore[no-untyped-def]
        actions = change(self)
        if self.state is WriterState.CHANGING and self.metadata.last_segment.first < self.last_confirmed:
            members = self._wanted.last_segment.members
            actions = self._swap(self.metadata.with_ensemble(self.last_confirmed, members))
        return actions

    patch.setattr(Writer, "_change_if_needed", one_sooner)


def confirms_before_the_segment_is_stored(patch: pytest.MonkeyPatch) -> None:
    swap = Writer._swap

    def unhesitating(self, wanted):  # type: ignore[no-untyped-def]
        actions = swap(self, wanted)
        if self.state is WriterState.CHANGING:
            self.state = WriterState.OPEN
            sends = self._window.replace(wanted.last_segment.members)
            actions += [writer.SendAdds(bookie, [entry], [body], False) for bookie, entry, body in sends]
        return actions

    patch.setattr(Writer, "_swap", unhesitating)


def writes_again_blindly(patch: pytest.MonkeyPatch) -> None:
    def blind(self, stored: StoredLedger) -> list[SwapMetadata]:  # type: ignore[no-untyped-def]
        self._version = stored.version
        return [SwapMetadata(self._wanted, stored.version)]

    patch.setattr(Writer, "metadata_read", blind)


def ends_at_the_first_bookie_without_the_entry(patch: pytest.MonkeyPatch) -> None:
    begin = EntryRead.__init__

    def soon_absent(self, entry, members, codec, *, absent_after, is_fencing=False):  # type: ignore[no-untyped-def]
        begin(self, entry, members, codec, absent_after=1, is_fencing=is_fencing)

    patch.setattr(EntryRead, "__init__", soon_absent)


def sends_other_data_under_the_same_number(patch: pytest.MonkeyPatch) -> None:
    again = AddWindow.replace

    def changed(self, ensemble):  # type: ignore[no-untyped-def]
        return [(bookie, entry, (head, data + b"!")) for bookie, entry, (head, data) in again(self, ensemble)]

    patch.setattr(AddWindow, "replace", changed)


def takes_damaged_bytes(patch: pytest.MonkeyPatch) -> None:
    verified = EntryCodec.unpack

    def trusting(self, entry: int, body: bytes) -> Entry:  # type: ignore[no-untyped-def]
        try:
            return verified(self, entry, body)
        except DigestMismatchError:
            body = body[:-1] + bytes([body[-1] ^ 1])
            return replace(verified(self, entry, body), data=b"?" + body[self.overhead + 1 :])

    patch.setattr(recovery.EntryCodec, "unpack", trusting)


BREAKS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "S1": (reports_before_enough_have_it, "S1"),
    "S2": (takes_over_without_a_fence, "S3"),
    "S3": (closes_at_the_last_confirmed_of_a_bookie, "S3"),
    "S4-first": (begins_a_segment_at_a_reported_entry, "S4"),
    "S4-stored": (confirms_before_the_segment_is_stored, "S[134]"),
    "S5": (writes_again_blindly, "S5"),
    "S6": (ends_at_the_first_bookie_without_the_entry, "S3"),
    "S7": (sends_other_data_under_the_same_number, "S7"),
    "S8": (takes_damaged_bytes, "S7"),
}
"""How each rule is broken, and by which rule the histories find it: S2 and S6 keep S3, S8 keeps S7."""


@pytest.mark.parametrize("rule", BREAKS)
def test_a_broken_rule_is_found(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it, finding = BREAKS[rule]
    break_it(monkeypatch)
    with pytest.raises(BrokenRuleError, match=f"^{finding}"):  # noqa: PT012
        for seed in range(MOST_SEEDS):
            World(seed).play()
