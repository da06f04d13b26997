"""LeaderElection. Names in brackets are Pulsar's tests (LeaderElectionTest, LeaderElectionStaleLeaderCloseTest)."""

import asyncio

import pytest

from pulsar_barycenter.metadata.coordination.leader_election import LeaderElection, LeaderElectionState
from pulsar_barycenter.metadata.errors import StoreClosedError, StoreUnavailableError
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import SessionEvent
from support.metadata_backends import Heard, eventually
from support.virtual_time import World, on_virtual_time

PATH = "/leader"
LEADING, FOLLOWING = LeaderElectionState.LEADING, LeaderElectionState.FOLLOWING
NO_LEADER = LeaderElectionState.NO_LEADER


@pytest.fixture
def backend():
    return MemoryBackend()


@pytest.fixture
async def stores(backend):
    stores = [backend.connect() for _ in range(3)]
    yield stores
    for store in stores:
        await store.close()


class Candidate(LeaderElection[str]):
    def __init__(self, store, name):
        self.states = []
        super().__init__(store, PATH, str, name, self.states.append)


@pytest.fixture
async def candidates(stores):
    candidates = [Candidate(store, f"candidate {number}") for number, store in enumerate(stores)]
    yield candidates
    for candidate in candidates:
        await candidate.close()


async def test_a_single_candidate_leads_and_leaves(candidates, backend):
    """[basicTest]"""
    one = candidates[0]
    assert (one.state, one.leader_if_known()) == (NO_LEADER, None)
    assert await one.elect() is LEADING
    assert await one.elect() is LEADING
    assert (one.leader_if_known(), backend.keys.get(PATH, session=None).value) == ("candidate 0", b'"candidate 0"')
    assert candidates[1].leader_if_known() is None  # one that never took part
    await one.close()
    await one.close()
    assert (one.state, one.leader_if_known(), len(backend.keys)) == (NO_LEADER, None, 0)
    assert await one.elect("another proposal") is LEADING
    assert backend.keys.get(PATH, session=None).value == b'"another proposal"'
    assert one.states == [LEADING, LEADING]


async def test_the_second_follows_and_takes_over_when_the_leader_leaves(candidates):
    """[multipleMembers]"""
    first, second, _ = candidates
    assert [await first.elect(), await second.elect()] == [LEADING, FOLLOWING]
    assert second.leader_if_known() == "candidate 0"
    await first.close()
    await eventually(lambda: second.state is LEADING)
    assert second.leader_if_known() == "candidate 1"
    assert second.states == [FOLLOWING, LEADING]


async def test_who_follows_hears_that_another_leads(candidates):
    """He keeps what he has at the former leader else, which may live and not know that it leads no more."""
    for candidate in candidates:
        await candidate.elect()
    first, *followers = candidates
    await first.close()
    await eventually(lambda: LEADING in [each.state for each in followers])
    (successor,) = [each for each in followers if each.state is LEADING]
    (other,) = [each for each in followers if each is not successor]
    await eventually(lambda: other.states == [FOLLOWING, FOLLOWING])
    assert other.leader_if_known() == successor.leader_if_known()
    assert successor.states == [FOLLOWING, LEADING]


async def test_of_candidates_at_once_exactly_one_leads(candidates):
    states = await asyncio.gather(*(candidate.elect() for candidate in candidates))
    assert sorted(state.value for state in states) == ["following", "following", "leading"]


async def test_a_leader_whose_key_is_deleted_by_somebody_is_elected_again_and_says_so(candidates, stores, backend):
    """[leaderNodeIsDeletedExternally] A client that asked in between saw that it did not lead."""
    one = candidates[0]
    await one.elect()
    await stores[1].delete(PATH)
    await eventually(lambda: PATH in backend.keys and one.state is LEADING)
    assert one.states == [LEADING, LEADING]


async def test_leaders_close_one_after_another(candidates, backend):
    """[closeAll]"""
    for candidate in candidates:
        await candidate.elect()
    for candidate in candidates:
        await eventually(lambda candidate=candidate: candidate.state is LEADING)
        await candidate.close()
    assert len(backend.keys) == 0


async def test_a_key_of_the_own_session_with_another_value_is_replaced(candidates, stores):
    """[revalidateLeaderWithinSameSession]"""
    await stores[0].put(PATH, b'"an earlier proposal"', ephemeral=True)
    assert await candidates[0].elect() is LEADING
    assert (await stores[0].get(PATH)).value == b'"candidate 0"'


async def test_an_equal_key_of_another_session_is_taken_over(candidates, stores):
    """[revalidateLeaderWithDifferentSessionsSameValue]"""
    await stores[1].put(PATH, b'"candidate 0"', ephemeral=True)
    assert await candidates[0].elect() is LEADING
    assert (await stores[0].get(PATH)).stat.created_by_self


async def test_another_key_of_another_session_is_followed(candidates, stores):
    """[revalidateLeaderWithDifferentSessionsDifferentValue]"""
    await stores[1].put(PATH, b'"somebody"', ephemeral=True)
    assert await candidates[0].elect() is FOLLOWING
    assert candidates[0].leader_if_known() == "somebody"
    await stores[1].put(PATH, b'"somebody with a new address"')
    await eventually(lambda: candidates[0].leader_if_known() == "somebody with a new address")


async def test_electing_from_a_listener_does_not_block(stores):
    """[validateDeadLock]"""
    elected = []
    candidate = LeaderElection(stores[0], PATH, str, "me")

    def on_change(_):
        elected.append(asyncio.ensure_future(candidate.elect()))

    stop = stores[0].add_listener(on_change)
    await stores[1].put("/something", b"")
    await eventually(lambda: elected)
    assert await elected[0] is LEADING
    stop()
    await asyncio.gather(*elected)
    await candidate.close()


async def test_a_listener_that_fails_does_not_end_the_election(stores):
    def fail(_):
        raise RuntimeError("a bug of some listener")

    candidate = LeaderElection(stores[0], PATH, str, "me", fail)
    assert await candidate.elect() is LEADING
    await candidate.close()


async def test_a_stale_leader_that_closes_leaves_its_successors_key_alone(candidates, stores, backend):
    """[LeaderElectionStaleLeaderCloseTest] Its session has ended, and it does not know."""
    stale, successor, _ = candidates
    await stale.elect()
    backend.expire_session(stores[0])
    assert await successor.elect() is LEADING
    assert stale.state is LEADING
    await stale.close()
    assert successor.state is LEADING
    assert (await stores[1].get(PATH)).value == b'"candidate 1"'
    assert successor.states == [LEADING]


async def test_a_follower_that_closes_leaves_the_leaders_key_alone(candidates, backend):
    await candidates[0].elect()
    await candidates[1].elect()
    await candidates[1].close()
    assert PATH in backend.keys


async def test_what_is_just_being_won_when_the_election_closes_is_given_back(candidates, backend):
    electing = asyncio.ensure_future(candidates[0].elect())
    await asyncio.sleep(0)
    await candidates[0].close()
    with pytest.raises(StoreClosedError):
        await electing
    assert len(backend.keys) == 0
    assert candidates[0].states == []


async def test_a_leader_that_lost_its_session_follows_whoever_took_its_place(candidates, stores, backend):
    stale, successor, _ = candidates
    await stale.elect()
    events = Heard.session_events(stores[0])
    backend.expire_session(stores[0])
    await successor.elect()
    await events.until_heard(SessionEvent.SESSION_REESTABLISHED)
    await eventually(lambda: stale.state is FOLLOWING)
    assert stale.states == [LEADING, FOLLOWING]
    assert stale.leader_if_known() == "candidate 1"


def test_a_leader_cut_off_goes_on_believing_and_is_elected_again_unheard():
    """[testElectAfterReconnected, testReacquireLeadershipAfterSessionLost] No other broker wanted to lead."""

    async def scenario(world: World) -> None:
        client = world.machine().store
        states: list[LeaderElectionState] = []
        candidate = LeaderElection(client, PATH, str, "me", states.append)
        await candidate.elect()
        for cut_s in (5, 60):
            world.backend.partition(client)
            await asyncio.sleep(cut_s)
            assert candidate.state is LEADING
            world.backend.heal(client)
            await asyncio.sleep(20)
            assert candidate.state is LEADING
            assert PATH in world.backend.keys
        await candidate.close()
        assert states == [LEADING]

    on_virtual_time(scenario)


def test_an_election_that_fails_for_want_of_the_store_is_tried_again_every_five_seconds():
    async def scenario(world: World) -> None:
        client = world.machine().store
        candidate = LeaderElection(client, PATH, str, "me")
        world.backend.partition(client)
        with pytest.raises(StoreUnavailableError):
            await candidate.elect()
        assert candidate.state is NO_LEADER
        world.backend.heal(client)
        await eventually(lambda: candidate.state is LEADING)
        assert candidate.leader_if_known() == "me"
        await candidate.close()

    on_virtual_time(scenario)


async def test_whoever_declines_sees_who_leads_and_never_begins_to(candidates, backend):
    one, two, three = candidates
    assert [await each.elect() for each in candidates] == [LEADING, FOLLOWING, FOLLOWING]
    for each in (one, two):
        each.decline()
    assert (one.state, await one.elect()) == (LEADING, LEADING)
    await one.close()
    await eventually(lambda: (two.state, two.leader_if_known()) == (FOLLOWING, "candidate 2"))
    await three.close()
    assert await two.elect() is NO_LEADER
    assert len(backend.keys) == 0


def test_a_lost_notification_is_made_up_for_by_the_recheck():
    async def scenario(world: World) -> None:
        leading, following = world.machine("leader").store, world.machine("follower").store
        world.backend.route_notifications(following, lambda change: None)
        leader, follower = (
            LeaderElection(leading, PATH, str, "leader"),
            LeaderElection(following, PATH, str, "follower"),
        )
        assert [await leader.elect(), await follower.elect()] == [LEADING, FOLLOWING]
        await leader.close()
        await asyncio.sleep(6)
        assert follower.state is LEADING
        await follower.close()

    on_virtual_time(scenario)


@pytest.mark.parametrize("successor", ["leader", "another"])
def test_a_leader_that_came_anew_between_two_looks_is_heard_of(successor: str) -> None:
    """Its key was deleted and created again, by the same name or not, and no notification came."""

    async def scenario(world: World) -> None:
        leading, following = world.machine("leader").store, world.machine("follower").store
        world.backend.route_notifications(following, lambda change: None)
        leader = LeaderElection(leading, PATH, str, "leader")
        states: list[LeaderElectionState] = []
        follower = LeaderElection(following, PATH, str, "follower", states.append)
        await leader.elect()
        await follower.elect()
        await asyncio.sleep(11)
        await leader.close()
        await leader.elect(successor)
        await asyncio.sleep(12)
        assert follower.leader_if_known() == successor
        assert states == [FOLLOWING, FOLLOWING]
        await follower.close()
        await leader.close()

    on_virtual_time(scenario)


async def test_a_key_that_only_changed_is_of_the_same_life(candidates, stores) -> None:
    one, two, _ = candidates
    await one.elect()
    await two.elect()
    await one.close()
    await eventually(lambda: two.state is LEADING)
    await one.elect()
    before = list(one.states)
    await stores[1].put(PATH, b'"candidate 1"', expected_version=0, ephemeral=True)
    await eventually(lambda: one._creation is not None and one._creation[1] == 1)
    assert one.states == before
