"""Reports that are late, lost, failed or doubled, and what the leader knows then."""

import numpy as np
import pytest

from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.replay.delivery import PERFECT, Deliveries, Delivery
from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.reports import Reports
from support.replayed_world import BROKERS, World

MINUTE_MS = 60_000
BOTH = pytest.mark.parametrize("kind", [ManagerKind.MODULAR, ManagerKind.EXTENSIBLE])


def world(kind: ManagerKind, delivery: Delivery) -> World:
    found = World(1, kind)
    found.reports = Reports(BROKERS, found.bundles, delivery, seed=1)
    return found


def told_at_minutes(kind: ManagerKind, delivery: Delivery, minutes: int) -> list[list[int]]:
    """Return for each minute the age in minutes of each broker's report, -1 without one. Load changes all the time."""
    shown, found = world(kind, delivery), []
    for number in range(minutes):
        shown.step(number)
        shown.bundles.figures = shown.bundles.figures * 1.3**number
        shown.told()
        ages = (shown.now_ms - shown.reports.told_at_ms) // MINUTE_MS
        found.append([age if age < 10_000 else -1 for age in ages.tolist()])
    return found


@BOTH
def test_reports_arrive_at_once(kind: ManagerKind) -> None:
    assert told_at_minutes(kind, PERFECT, 5) == [[0] * len(BROKERS)] * 5


@BOTH
def test_lost_reports_are_never_known(kind: ManagerKind) -> None:
    assert told_at_minutes(kind, Delivery(lost=1), 20) == [[-1] * len(BROKERS)] * 20


@BOTH
def test_late_reports_are_known_later_and_never_replace_newer_ones(kind: ManagerKind) -> None:
    ages = np.array(told_at_minutes(kind, Delivery(late=0.5, longest_ms=5 * MINUTE_MS), 30))
    assert ages.max() > 1
    assert ages.max() <= 10
    known = np.arange(30)[:, None] - ages
    assert (np.diff(np.where(ages < 0, -1, known), axis=0) >= 0).all()


def test_a_failed_report_is_sent_again_and_a_lost_one_is_not() -> None:
    """Load is steady, so that only the first report of a broker is due."""
    ages = {}
    for name, delivery in {"failed": Delivery(failed=0.7), "lost": Delivery(lost=0.7)}.items():
        shown = world(ManagerKind.MODULAR, delivery)
        for number in range(12):
            shown.step(0)
            shown.now_ms += number * MINUTE_MS
            shown.told()
        ages[name] = (shown.reports.told_at_ms < 0).sum()
    assert ages["failed"] == 0
    assert ages["lost"] > 0


def test_a_doubled_report_is_two_samples() -> None:
    shown = world(ManagerKind.MODULAR, Delivery(doubled=1, longest_ms=1))
    samples = []
    for number in range(2):
        shown.step(0)
        shown.now_ms += number * MINUTE_MS
        _, snapshot = shown.told()
        samples.append(set(snapshot.bundles.short_samples.tolist()))
    assert samples == [{1}, {2}]


def test_a_late_report_lists_the_bundles_of_its_time() -> None:
    shown = world(ManagerKind.MODULAR, Delivery(late=1, longest_ms=1))
    shown.step(0)
    shown.told()
    names, before = list(shown.bundles.names), shown.bundles.owner.copy()
    shown.bundles.owner[:] = (before + 1) % len(BROKERS)
    shown.step(1)
    _, snapshot = shown.told()
    assert list(snapshot.bundles.names) == names
    assert snapshot.bundles.owner.tolist() == before.tolist()
    assert {bundle for _, bundle in snapshot.on_their_way.pairs} == set(names)


def test_reports_on_their_way_do_not_outlive_their_broker_and_follow_splits() -> None:
    shown = world(ManagerKind.MODULAR, Delivery(late=1, longest_ms=1))
    shown.step(0)
    shown.told()
    shown.reports.forget(0)
    name = shown.bundles.names[0]
    row = shown.bundles.row_of(name)
    lower, upper = (int(edge, 16) for edge in name.rpartition("/")[2].split("_"))
    parts = shown.bundles.split(name, [(lower + upper) // 2])
    shown.reports.split(row, len(parts))
    shown.step(1)
    _, snapshot = shown.told()
    assert BROKERS[0] not in snapshot.brokers.names
    of = dict(zip(snapshot.bundles.names, snapshot.bundles.owner.tolist(), strict=True))
    assert not set(parts) & set(of)
    rows = {name: owner for name, owner in zip(shown.bundles.names, shown.bundles.owner.tolist(), strict=True) if owner}
    assert {name: snapshot.brokers.names[owner] for name, owner in of.items()} == {
        name: BROKERS[owner] for name, owner in rows.items() if name not in parts
    }


def test_the_same_seed_gives_the_same_fates() -> None:
    sent = np.ones(50, bool)
    one, same, other = (Deliveries(Delivery(0.3, 0.2, 0.1, 0.2), seed) for seed in (1, 1, 2))
    drawn = [deliveries.of(sent) for deliveries in (one, same, other)]
    assert all((mine == its).all() for mine, its in zip(drawn[0], drawn[1], strict=True))
    assert (drawn[0].late_ms != drawn[2].late_ms).any()
    few = np.zeros(50, bool)
    few[:3] = True
    assert (one.of(few).at_once == same.of(sent).at_once & few).all()


@pytest.mark.parametrize(
    ("late", "lost", "longest_ms", "message"),
    [
        (0.7, 0.4, 1, "late 0.7, lost 0.4, failed 0 and doubled 0 must be shares of all reports: none below 0"),
        (-0.1, 0.0, 1, "late -0.1,"),
        (float("nan"), 0.0, 1, "late nan,"),
        (0.1, 0.0, 0, "reports cannot be 0 milliseconds late; give 1 to 3600000"),
    ],
)
def test_what_cannot_be_is_refused(late: float, lost: float, longest_ms: int, message: str) -> None:
    with pytest.raises(ReplayInputError, match=message.replace("(", r"\(")):
        Delivery(late, lost, longest_ms=longest_ms)
