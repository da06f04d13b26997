"""The schedules of faults: what is drawn, and what is shown of it."""

import pytest

from support.fault_schedule import KINDS, Fault, Kind, Outcome, drawn, figures, given_configuration, shares
from support.outages import BROKERS, Deed, Outage, Recovery, Round, drawn_outages, recovery_row


@pytest.mark.parametrize("count", [1, 5, 23, 24, 100, 1000])
def test_every_fault_befalls_one_store(count: int) -> None:
    assert sum(shares(count).values()) == count


def test_many_faults_are_of_every_kind_equally_often() -> None:
    found = {store: drawn(3, KINDS[store], share) for store, share in shares(320).items()}
    counts = {store: len(faults) for store, faults in found.items()}
    assert counts == {"sqlite": 40, "zookeeper": 100, "etcd": 100, "oxia": 80}
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
