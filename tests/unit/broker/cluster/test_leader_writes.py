"""What the leader writes for brokers, and what they write themselves, in the mode in which it writes for all."""

import pytest

from pulsar_barycenter.broker.cluster.leader_writes import LEASED_ROOTS, NUMBERS_ROOT, OF_BROKERS, is_own
from pulsar_barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, LEADER_PATH
from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT
from pulsar_barycenter.broker.namespaces.boundaries import LOCAL_POLICIES_ROOT, POLICIES_ROOT
from pulsar_barycenter.broker.ownership.channel.machine.own_life import SESSIONS_ROOT
from pulsar_barycenter.broker.ownership.channel.places.place import PLACE_PATH, READERS_ROOT
from pulsar_barycenter.broker.ownership.channel.store_records import RECORDS_ROOT
from pulsar_barycenter.broker.ownership.locks import EPOCH_COUNTER
from pulsar_barycenter.broker.ownership.record import OWNERSHIP_ROOT
from pulsar_barycenter.broker.wire.producer_names import PRODUCER_NAME_COUNTER
from pulsar_barycenter.ledger.managed.managed_ledger import MANAGED_LEDGERS
from pulsar_barycenter.ledger.storage import LEDGER_ID_COUNTER
from pulsar_barycenter.metadata.coordination.epochs import epoch_path
from pulsar_barycenter.metadata.leader_writes.session_records import LEASED_ROOT


def test_every_key_that_ends_with_a_session_lies_where_the_leader_looks_for_it() -> None:
    assert OF_BROKERS == (BROKERS_ROOT, SESSIONS_ROOT, READERS_ROOT)
    assert (OWNERSHIP_ROOT, *OF_BROKERS) == LEASED_ROOTS


@pytest.mark.parametrize("counter", [EPOCH_COUNTER, PRODUCER_NAME_COUNTER, LEDGER_ID_COUNTER])
def test_numbers_are_drawn_by_whoever_needs_one(counter: str) -> None:
    assert is_own(f"{counter}/-")
    assert counter.rpartition("/")[0] == NUMBERS_ROOT


@pytest.mark.parametrize("leader", [LEADER_PATH, CHANNEL_LEADER_PATH])
def test_candidates_write_the_keys_of_their_election(leader: str) -> None:
    assert is_own(leader)
    assert is_own(epoch_path(leader))


def test_owners_write_what_belongs_to_topics_and_the_leader_all_else() -> None:
    assert is_own(f"{MANAGED_LEDGERS}/public/default/persistent/topic")
    roots = (*LEASED_ROOTS, RECORDS_ROOT, PLACE_PATH, LOCAL_POLICIES_ROOT, POLICIES_ROOT, LEASED_ROOT)
    assert not any(is_own(f"{root.rstrip('/')}/a/b") or is_own(root) for root in roots)
