"""Scenarios from TOML files: the examples hold, what is wrong is refused, and expectations can fail."""

from pathlib import Path

import numpy as np
import pytest

from pulsar_barycenter.replay.errors import ReplayInputError
from pulsar_barycenter.replay.measures import measure
from pulsar_barycenter.replay.outcome import Moved, Outcome
from pulsar_barycenter.replay.scenario import run_setup
from pulsar_barycenter.replay.scenario_files import (
    MOST_BYTES,
    Balance,
    Conforms,
    Expect,
    Steady,
    scenario_of,
    setup_of,
    verdicts,
)

EXAMPLES = sorted((Path(__file__).parents[3] / "docs" / "examples" / "scenarios").glob("*.toml"))
SMALL = """
about = "Two brokers."
brokers = 2
minutes = 20
[load]
bundles = 8
noise = 0
sizes = "even"
"""


def an_outcome(usage: list[list[float]], *, unserved: float = 0.0, moves: tuple[Moved, ...] = ()) -> Outcome:
    of = np.array(usage)
    steps = len(of)
    return Outcome(
        at_ms=1_767_225_600_000 + np.arange(steps, dtype=np.int64) * 60_000,
        step_ms=60_000,
        brokers=("one", "two"),
        live=np.ones(of.shape, bool),
        usage=of,
        cpu=of,
        rate=of * 100,
        throughput=of,
        unserved=np.array([0.0] * (steps - 1) + [unserved]),
        floor=np.zeros(steps),
        moves=moves,
        splits=(),
        unserved_topic_s=0.0,
        event_ms=(),
        bundles=2,
        failed_unloads=3,
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_goes_as_expected(path: Path) -> None:
    scenario = scenario_of(path.name, path.read_bytes())
    found = verdicts(scenario.expect, run_setup(setup_of(scenario, 1), "LeastDisturbance", 1))
    assert len(found) >= 3
    assert [verdict.text for verdict in found if not verdict.holds] == []


def test_the_example_of_the_page_goes_as_expected() -> None:
    page = (Path(__file__).parents[3] / "docs" / "replay.md").read_text()
    scenario = scenario_of("page", page.partition("```toml\n")[2].partition("```")[0].encode())
    found = verdicts(scenario.expect, run_setup(setup_of(scenario, 1), "LeastDisturbance", 1))
    assert [verdict.holds for verdict in found] == [True, True], found


def test_expectations_can_fail() -> None:
    expect = Expect(
        balance=Balance(at_most=1.2, minutes=2),
        steady=Steady(at_most=0.1, minutes=2),
        conforms=Conforms(minutes=1),
        measures={"failed_unloads": 2},
    )
    found = verdicts(expect, an_outcome([[0.9, 0.1], [0.5, 0.5], [0.7, 0.3]], unserved=7))
    assert [verdict.holds for verdict in found] == [False] * 4
    assert [verdict.text for verdict in found] == [
        "balance: one had 1.4 times the mean usage in minute 2; at most 1.2 is allowed in the last 2 minutes",
        "steady: the usage of two was up to 0.25 of its mean away from that mean;"
        " at most 0.1 is allowed in the last 2 minutes",
        "conforms: bundles with 7 msg/s had no broker in minute 2; none is allowed in the last minute",
        "failed_unloads: it is 3; at most 2 is allowed",
    ]
    even = verdicts(expect, an_outcome([[0.9, 0.1], [0.5, 0.5], [0.5, 0.5]]))
    assert [verdict.holds for verdict in even] == [True] * 3 + [False]
    assert even[2].text == "conforms: every bundle with traffic had a broker in the last minute"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("brokers = ", "is not a scenario: .*docs/replay.md has the keys"),
        ("[expect]\n", "is empty; give balance"),
        ("[expect]\nbalanced = {}", r"\[expect\] has the unknown key balanced; did you mean balance\?"),
        ("[expect]\nbalance = {}", r"\[expect.balance\] has no key at_most; add it"),
        ("[expect]\nbalance = 3", r"\[expect\]: balance is 3; give a table"),
        ("[expect]\nbalance = { at_most = nan }", r"\[expect.balance\]: at_most is nan; give a number at least 1"),
        ("[expect]\nmeasures = { unloaded = 3 }", "expect.measures.unloaded is not a measure with one number"),
        ("[expect]\nmeasures = { even_after_s = 3 }", "even_after_s is not a measure with one number"),
        ("[expect]\nmeasures = { unloads = inf }", "expect.measures.unloads is inf; give a finite number"),
        ("[expect]\nconforms = { minutes = 21 }", "expect.conforms.minutes is 21, but the run has 20 minutes"),
        ('[[events]]\nevent = "leader-lost"\nminute = 20', "an event is at minute 20"),
        (
            '[[events]]\nevent = "broker-added"\nminute = 1\nbroker = 2',
            "broker 2 is added at minute 1",
        ),
        ('[[events]]\nevent = "broker-removed"\nminute = 1\nbroker = 3', "broker 3 is not in the cluster at minute 1"),
        ('[[events]]\nevent = "load-changed"\nminute = 1\nbroker = 3\nfactor = 2', "the load of broker 3 changes"),
        ('[[events]]\nevent = "broker-painted"\nminute = 1', "did you mean broker-added"),
        (
            '[[events]]\nevent = "broker-crash"\nminute = 1',
            r"\[\[events\]\] number 1: event is 'broker-crash'; did you mean broker-crashed\? The known names are",
        ),
        (
            '[[events]]\nevent = "leader-lost"\nminute = 1\nminuts = 2',
            r"\[\[events\]\] number 1 has the unknown key minuts; did you mean minutes\?.*are event, minute, minutes",
        ),
        ("[[events]]\nminute = 1\n[[events]]\nevent = 3", r"\[\[events\]\] number 1 has no key event"),
        ('[[events]]\nevent = "leader-lost"\nminute = "a"', "minute is 'a'; give a number"),
        (
            "[settings]\nmaxUnloadPercentage = 1",
            r"\[settings\]: one of the values is of another kind; give a text in quotes",
        ),
        ('[settings]\nmaxUnloadPercent = "1"', "a known key; did you mean maxUnloadPercentage"),
        ('[[events]]\nevent = "setting-changed"\nminute = 1\nkey = "loadBalancerEnabled"\nvalue = "x"', "x"),
        ('[settings]\nloadBalancerSheddingIntervalMinutes = "often"', "often"),
        ("[reports]\nlate = 0.7\nlost = 0.4", "must be shares of all reports"),
    ],
)
def test_what_is_wrong_is_refused(text: str, message: str) -> None:
    expects = "" if "[expect]" in text else "[expect]\nconforms = {}\n"
    with pytest.raises(ReplayInputError, match=r"(?s)file\.toml.*" + message):
        scenario_of("file.toml", f"{SMALL}{expects}{text}".encode())


def test_a_value_of_a_list_is_named_by_its_number() -> None:
    text = SMALL.replace("brokers = 2", "brokers = 2\ncores = [8, 'many']")
    with pytest.raises(ReplayInputError, match="value 2 of cores is 'many'; give a number"):
        scenario_of("x", f"{text}[expect]\nconforms = {{}}".encode())


def test_files_are_bounded() -> None:
    with pytest.raises(ReplayInputError, match="has 1,048,577 bytes; a scenario has at most 1048576"):
        scenario_of("x", b" " * (MOST_BYTES + 1))
    wide = SMALL.replace("bundles = 8", "bundles = 100000").replace("minutes = 20", "minutes = 1000")
    with pytest.raises(ReplayInputError, match="are more than 50,000,000; give fewer"):
        scenario_of("x", f"{wide}[expect]\nconforms = {{}}".encode())


def test_a_file_describes_load_and_events() -> None:
    text = SMALL + (
        'placed = "skewed"\nusage = 0.5\n[expect]\nconforms = {}\n[[events]]\nevent = "load-changed"\nminute = 10\n'
        'broker = 1\nfactor = 3\n[[events]]\nevent = "leader-lost"\nminute = 3\nminutes = 4\n'
    )
    made = setup_of(scenario_of("x", text.encode()), 1)
    first = np.array(made.demand.owners) == "broker-0001:8080"
    assert int(first.sum()) == 4
    total = made.demand.rate_in[:, first].sum(axis=1)
    assert total[10] == pytest.approx(3 * total[9])
    assert [type(event).__name__ for event in made.events] == ["LeaderLost"]
    assert run_setup(made, "no-op", 1).usage[0].mean() == pytest.approx(0.5)


def test_thrash_is_what_brokers_both_took_and_gave() -> None:
    there = Moved(at_ms=0, kind="unload", bundle="a", source="one", destination="two", rate=30.0)
    back = Moved(at_ms=60_000, kind="unload", bundle="b", source="two", destination="one", rate=10.0)
    usage = [[0.5, 0.5]] * 2
    assert measure(an_outcome(usage, moves=(there,))).thrash == 0
    assert measure(an_outcome(usage, moves=(there, back))).thrash == pytest.approx(20 / 100)


def test_failed_unloads_leave_bundles_where_they_are() -> None:
    text = SMALL + 'placed = "one-broker"\nusage = 0.3\n[expect]\nconforms = {}\n'
    works, fails = (
        run_setup(setup_of(scenario_of("x", (f"failing_unloads = {share}\n{text}").encode()), 1), "AvgShedder", 1)
        for share in (0, 1)
    )
    assert works.moves
    assert not works.failed_unloads
    assert not fails.moves
    assert fails.failed_unloads >= 1
    assert fails.unserved_topic_s > 0
