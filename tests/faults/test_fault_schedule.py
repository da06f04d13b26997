"""The schedules of faults: what is drawn, and what is shown of it."""

import pytest

from support.fault_schedule import (
    KINDS,
    SHORT_FORM,
    Begun,
    Fault,
    Kind,
    Outcome,
    drawn,
    figures,
    given_configuration,
    near,
    shares,
)
from support.outages import BROKERS, Deed, Outage, Recovery, Round, drawn_outages, recovery_row


@pytest.mark.parametrize("stores", [SHORT_FORM, tuple(KINDS), ("bookies",)])
@pytest.mark.parametrize("count", [1, 5, 23, 24, 100, 1000])
def test_every_fault_befalls_one_of_the_stores(count: int, stores: tuple[str, ...]) -> None:
    found = shares(count, stores)
    assert sum(found.values()) == sum(found[store] for store in stores) == count


def test_few_faults_befall_the_stores_by_turns() -> None:
    assert shares(5, SHORT_FORM) == {"sqlite": 2, "zookeeper": 1, "etcd": 1, "oxia": 1, "bookies": 0}
    assert shares(5, tuple(KINDS)) == dict.fromkeys(KINDS, 1)


@pytest.mark.parametrize("stores", [(), ("sqlite", "paper")])
def test_faults_befall_only_stores_that_there_are(stores: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="want some of sqlite, zookeeper"):
        shares(5, stores)


def test_many_faults_are_of_every_kind_equally_often() -> None:
    found = {store: drawn(3, KINDS[store], share) for store, share in shares(440, tuple(KINDS)).items()}
    counts = {store: len(faults) for store, faults in found.items()}
    assert counts == {"sqlite": 40, "zookeeper": 100, "etcd": 100, "oxia": 80, "bookies": 120}
    for store, faults in found.items():
        assert {kind: sum(fault.kind is kind for fault in faults) for kind in KINDS[store]} == dict.fromkeys(
            KINDS[store], 10
        )


def test_a_seed_draws_the_same_schedule_and_another_seed_another() -> None:
    assert drawn(3, KINDS["etcd"], 50) == drawn(3, KINDS["etcd"], 50)
    assert drawn(3, KINDS["etcd"], 50) != drawn(4, KINDS["etcd"], 50)


def test_some_faults_end_within_a_session_and_some_outlast_it() -> None:
    lasts = [fault.for_sessions for fault in drawn(3, KINDS["etcd"], 100)]
    assert 20 < sum(each < 1 for each in lasts) < 80
    assert not [each for each in lasts if 0.7 < each < 1.1]


def test_what_was_done_is_near_the_fault_that_lasts_and_to_one_that_soon_ends_it() -> None:
    faults = [Fault(kind, 1.0, 0) for kind in (Kind.KILL_BOOKIE, Kind.STOP_BOOKIE, Kind.KILL_OWNER)]
    begun = [Begun(fault, at_ms) for fault, at_ms in zip(faults, (10_000, 20_000, 30_000), strict=True)]
    assert near(begun, 8_999) == []
    assert near(begun, 9_000) == [faults[0]]
    assert near(begun, 10_000) == near(begun, 18_999) == [faults[0]]
    assert near(begun, 29_500) == [faults[1], faults[2]]
    assert near(begun, 90_000) == [faults[2]]


def test_figures_are_shown_by_store_and_kind() -> None:
    times = [float(number) for number in range(1, 201)]
    outcomes = [Outcome("etcd", Fault(Kind.KILL_LEADER, 1.2, 0), each) for each in times]
    outcomes.append(Outcome("sqlite", Fault(Kind.STOP_OWNER, 0.2, 0), 0.25))
    assert figures(outcomes) == [
        "| etcd | kill the leader | 200 | 100.0 | 198.0 | 200.0 |",
        "| sqlite | stop the owner of a topic | 1 | 0.2 | 0.2 | 0.2 |",
    ]


def test_configuration_is_given_by_key_and_value() -> None:
    assert given_configuration(["leaderOnlyMetadataWrites=true", "a=b=c", "empty="]) == {
        "leaderOnlyMetadataWrites": "true",
        "a": "b=c",
        "empty": "",
    }


@pytest.mark.parametrize("given", ["", "key", "=value"])
def test_what_is_not_key_and_value_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="want KEY=VALUE"):
        given_configuration([given])


def test_outages_have_as_many_rounds_as_asked_for_and_most_are_of_all_brokers() -> None:
    rounds = [each for outage in drawn_outages(3, 200) for each in outage.rounds]
    assert len(rounds) == 200
    assert sum(len(each.deeds) == BROKERS for each in rounds) > 100
    assert {deed for each in rounds for _, deed in each.deeds} == set(Deed)
    assert drawn_outages(3, 50) == drawn_outages(3, 50)
    assert drawn_outages(3, 50) != drawn_outages(4, 50)


def test_recoveries_are_shown_by_the_median_and_the_longest() -> None:
    outage = Outage((Round(((0, Deed.KILL),), 1.2, 0.5), Round(((0, Deed.STOP), (1, Deed.KILL)), 0.2, 0.0)))
    recoveries = [Recovery(outage, number, 2 * number, 3 * number) for number in (1.0, 2.0, 9.0)]
    assert recovery_row("modular", recoveries) == "| modular | 3 | 6 | 2.0 | 9.0 | 4.0 | 18.0 | 6.0 | 27.0 |"
