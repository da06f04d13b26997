"""The destinations of the bundles of a drained broker, where no leader of ours names them."""

import shlex

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_conf import parse_value
from pulsar_barycenter.load.policies import DRAINED_KEY, IsolationPolicies, drained_names, drained_text
from pulsar_barycenter.operations.draining import keeping_policy, spread, to_move
from support.extensible_choices import policy

NONE = IsolationPolicies()


def bundles(count: int, namespace: str = "t/n") -> list[str]:
    return [f"{namespace}/0x{number:08x}_0x{number + 1:08x}" for number in range(count)]


@given(
    st.integers(0, 30), st.dictionaries(st.sampled_from(["a:1", "b:1", "c:1", "d:1"]), st.integers(0, 9), min_size=2)
)
def test_bundles_go_where_the_fewest_are(count: int, counts: dict[str, int]) -> None:
    source = min(counts)
    moves, stay = spread(source, bundles(count), counts, NONE)
    assert (len(moves), stay) == (count, {})
    left = {name: each for name, each in counts.items() if name != source}
    for move in moves:
        assert left[move.destination] == min(left.values())
        left[move.destination] += 1


def test_policies_are_respected_and_what_nobody_may_serve_stays() -> None:
    isolation, _ = IsolationPolicies.decode({"p": policy("t/kept", "a.*|b.*", "c.*", least=1), "q": policy("t/d", "a")})
    counts = {"a:1": 9, "b:1": 9, "c:1": 0, "d:1": 5}
    (kept,) = bundles(1, "t/kept")
    (other,) = bundles(1, "t/other")
    (lone,) = bundles(1, "t/d")
    moves, stay = spread("a:1", [kept, other, lone], counts, isolation)
    assert {move.bundle: move.destination for move in moves} == {kept: "b:1", other: "c:1"}
    assert set(stay) == {lone}
    moves, _ = spread("b:1", [kept], {name: counts[name] for name in ("b:1", "c:1")}, isolation)
    assert moves[0].destination == "c:1", "a secondary broker helps out"


def test_what_is_a_brokers_own_is_not_moved() -> None:
    own = ["pulsar/a:1/0x00000000_0xffffffff", "pulsar/standalone/a:1/0x00000000_0xffffffff"]
    assert to_move([*own, "t/n/0x80000000_0xffffffff", "t/n/0x00000000_0x80000000"]) == [
        "t/n/0x00000000_0x80000000",
        "t/n/0x80000000_0xffffffff",
    ]


@given(st.lists(st.sampled_from(["a:1", "b:1", "[::1]:8080"]), unique=True))
def test_the_text_of_the_key_is_read_as_the_brokers_read_it(brokers: list[str]) -> None:
    text = drained_text(brokers)
    assert text.strip(), "a blank text is the default, and cannot be part of a path"
    assert drained_names(text) == parse_value(DRAINED_KEY, text) == tuple(brokers)


def test_a_policy_keeps_a_host_of_its_own_empty() -> None:
    commands = keeping_policy("c1", "10.0.0.1:8080", ["10.0.0.1:8080", "10.0.0.2:8080"])
    assert commands is not None
    words = shlex.split(commands[0])
    assert words[:6] == ["barycenter", "admin", "ns-isolation-policy", "set", "c1", "drained-10.0.0.1"]
    assert words[words.index("--primary") + 1] == "10[.]0[.]0[.]1"
    assert commands[1] == "barycenter admin ns-isolation-policy delete c1 drained-10.0.0.1"
    assert keeping_policy("c1", "a:1", ["a:1", "a:2"]) is None


def test_no_bundle_is_spread_to_whom_that_policy_keeps_empty() -> None:
    isolation, _ = IsolationPolicies.decode({"drained-b": policy("nobody/nothing", "b")})
    moves, stay = spread("a:1", bundles(3), {"a:1": 3, "b:1": 0, "c:1": 9}, isolation)
    assert ({move.destination for move in moves}, stay) == ({"c:1"}, {})
