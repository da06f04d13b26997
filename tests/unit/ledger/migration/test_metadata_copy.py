"""The copy of a cluster's metadata to another store: which keys it has, and numbers that are not given twice."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pulsar_barycenter.broker.ownership.locks import EPOCH_COUNTER
from pulsar_barycenter.broker.schemas.schema_records import SCHEMAS_ROOT
from pulsar_barycenter.broker.wire.producer_names import PRODUCER_NAME_COUNTER
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY
from pulsar_barycenter.ledger.migration.metadata_copy import MetadataCopy, Numbers, keys_to_copy, sequences_in
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.leader_writes.leased_values import leased
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.run.counters import NUMBERS
from support.migrated_cluster import quietly

EPOCHS = "/counters/ownership-epoch"


@pytest.fixture
async def present(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    store = await open_store(f"sqlite:{tmp_path / 'present.sqlite'}")
    for path, value in {
        "/admin/policies/shop/eu": b'{"bundles":4}',
        "/admin/partitioned-topics/shop/eu/persistent/orders": b'{"partitions":3}',
        "/managed-ledgers/shop/eu/persistent/orders": b'{"epoch":7}',
        "/managed-ledgers/shop/eu/persistent/orders/billing": bytes(range(256)),
        "/loadbalance/leader-epoch": b'{"epoch":3}',
        "/ключ": b"",
    }.items():
        await store.put(path, value)
    yield store
    await store.close()


@pytest.fixture
async def next_() -> AsyncIterator[MetadataStore]:
    store = MemoryBackend().connect()
    await store.put("/ledgers/INSTANCEID", b"uuid")
    yield store
    await store.close()


def copy_of(present: MetadataStore, next_: MetadataStore) -> MetadataCopy:
    return MetadataCopy(present, next_, NUMBERS, quietly)


async def test_persistent_keys_are_copied_and_those_of_sessions_and_bookies_are_not(
    present: MetadataStore, next_: MetadataStore
) -> None:
    expected = await keys_to_copy(present)
    assert len(expected) == 6
    await present.put("/loadbalance/brokers/b:8080", b"{}", ephemeral=True)
    await present.put("/namespace/shop/eu/0x0_0x8", leased("0" * 32, b"owner"))
    await present.put("/loadbalance/leased/secret", b"secret")
    await present.put("/ledgers/INSTANCEID", b"other")
    await present.put(FOLDER_KEY, b"identity")
    copy = copy_of(present, next_)
    assert await copy.refusal() == ""
    await copy.carry_out()
    await copy.check()
    assert await keys_to_copy(next_) == expected
    assert not await next_.exists(FOLDER_KEY)
    found = await next_.get("/ledgers/INSTANCEID")
    assert found is not None
    assert found.value == b"uuid"


async def test_an_interrupted_copy_is_continued_with_what_changed_meanwhile(
    present: MetadataStore, next_: MetadataStore
) -> None:
    copy = copy_of(present, next_)
    await copy.carry_out()
    await present.put("/managed-ledgers/shop/eu/persistent/orders", b'{"epoch":8}')
    await present.delete("/managed-ledgers/shop/eu/persistent/orders/billing")
    await present.put("/managed-ledgers/shop/eu/persistent/other", b"{}")
    with pytest.raises(LedgerError, match="the metadata stores differ in 3 keys"):
        await copy.check()
    await copy.carry_out()
    await copy.check()
    assert await keys_to_copy(next_) == await keys_to_copy(present)


async def test_a_store_that_a_cluster_uses_and_values_that_are_too_large_are_refused(
    present: MetadataStore, next_: MetadataStore
) -> None:
    await present.put("/large", bytes(1_000_001))
    assert "the key /large has 1,000,001 bytes" in await copy_of(present, next_).refusal()
    await next_.put("/managed-ledgers/a/b/persistent/c", b"{}")
    assert "has keys already (/managed-ledgers): a cluster uses it" in await copy_of(present, next_).refusal()


async def test_no_number_is_given_twice(present: MetadataStore, next_: MetadataStore) -> None:
    last = [await next_counter_value(present, EPOCHS) for _ in range(200)][-1]
    copy = copy_of(present, next_)
    await copy.carry_out()
    await copy.carry_out()
    assert await next_counter_value(next_, EPOCHS) > last


async def test_the_key_of_a_later_definition_of_a_schema_replaces_none(
    present: MetadataStore, next_: MetadataStore
) -> None:
    await present.put("/barycenter/schemas/shop/eu/orders", b"{}")
    for number in range(3):
        await present.put("/barycenter/schemas/shop/eu/orders/v", b"%d" % number, sequential=True)
    copy = copy_of(present, next_)
    await copy.carry_out()
    await copy.carry_out()
    await copy.check()
    stat = await next_.put("/barycenter/schemas/shop/eu/orders/v", b"later", sequential=True)
    assert stat.path == "/barycenter/schemas/shop/eu/orders/v0000000004"


def test_sequences_are_found_by_the_ten_digits_at_the_end() -> None:
    """A topic whose name ends with ten digits is none: what is above it is no key."""
    names = ["/s/a", "/s/a/v0000000002", "/s/a/v0000000011", "/s/b", "/s/b/v0000000001", "/s/a/v12", "/s/t1700000000"]
    others = ["/t", "/t/v0000000009"]
    assert sequences_in(dict.fromkeys([*names, *others], b""), ["/s"]) == {
        ("/s/a", "v"): (11, "/s/a/v0000000011"),
        ("/s/b", "v"): (1, "/s/b/v0000000001"),
    }


def test_the_numbers_are_those_that_brokers_use() -> None:
    assert Numbers((EPOCH_COUNTER, PRODUCER_NAME_COUNTER), (SCHEMAS_ROOT,)) == NUMBERS
