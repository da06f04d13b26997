"""What returns to a broker that was drained: bundles that operators moved away since, unless they moved them again."""

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.operations.bring_back import back

BROKERS = ("a:1", "b:1", "c:1")
BUNDLES = tuple(f"t/n/0x{number:08x}_0x{number + 1:08x}" for number in range(6))


def unloaded(number: int, bundle: str, source: str, destination: str, principal: str) -> DecisionRecord:
    return DecisionRecord(
        at=number,
        by="a:1",
        number=number,
        kind="unload",
        reason=Reason(code=Code.ADMIN),
        sentence="why",
        bundle=bundle,
        source=source,
        destination=destination,
        principal=principal,
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from(BUNDLES), st.sampled_from(BROKERS), st.sampled_from(BROKERS), st.sampled_from(["", "p"])
        )
    ),
    st.dictionaries(st.sampled_from(BUNDLES), st.sampled_from(BROKERS)),
)
def test_what_people_moved_away_last_comes_back_from_where_they_moved_it(
    moves: list[tuple[str, str, str, str]], owners: dict[str, str]
) -> None:
    """By a slow model: for each bundle the last move by an operator away from the broker counts, and its present
    owner."""
    broker = "a:1"
    decisions = [unloaded(number, *move) for number, move in enumerate(moves)]
    owned = {name: frozenset(bundle for bundle, owner in owners.items() if owner == name) for name in BROKERS}
    found, stay = back(broker, decisions, owned)
    sent = {bundle: destination for bundle, source, destination, who in moves if who and source == broker}
    expected = {bundle for bundle, destination in sent.items() if owners.get(bundle) == destination != broker}
    assert [move.bundle for move in found] == sorted(expected)
    assert all((move.source, move.destination) == (owners[move.bundle], broker) for move in found)
    assert stay.keys() == {bundle for bundle in sent if owners.get(bundle) not in (broker, sent[bundle])}
