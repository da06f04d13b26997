"""Reading the keys of a metadata store, from a file, from another store, and from what is not a store."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.broker.cluster.dynamic_configuration import CONFIGURATION_PATH
from pulsar_barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, LEADER_PATH
from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT
from pulsar_barycenter.broker.namespaces.boundaries import LOCAL_POLICIES_ROOT, POLICIES_ROOT
from pulsar_barycenter.broker.ownership.channel.store_records import RECORDS_ROOT
from pulsar_barycenter.broker.ownership.record import OWNERSHIP_ROOT
from pulsar_barycenter.doctor.picture import Lock
from pulsar_barycenter.doctor.reading import store, stored_keys
from pulsar_barycenter.doctor.reading.clock_offset import clock_offset
from pulsar_barycenter.doctor.reading.store import StoreUnreadableError, read_store
from pulsar_barycenter.doctor.reading.stored_keys import FOLDERS, KEYS, store_view
from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState
from pulsar_barycenter.metadata.leader_writes.leased_values import leased
from pulsar_barycenter.metadata.open import open_store

BUNDLE = "t/n/0x00000000_0x80000000"
VALUES = {
    "/loadbalance/brokers/b1:8080": {"webServiceUrl": "http://b1:8080", "lastUpdate": 7},
    "/loadbalance/leader": {"serviceUrl": "http://b1:8080"},
    f"/namespace/{BUNDLE}": {"httpUrl": "http://b1:8080", "nativeUrl": "pulsar://b1:6650", "disabled": True},
    f"/service_unit_state/{BUNDLE}": {"state": "Owned", "dstBroker": "b1:8080"},
    "/admin/local-policies/t/n": {"bundles": {"boundaries": ["0x00000000", "0xffffffff"]}},
    "/admin/policies/t/n": {"bundles": {"boundaries": ["0x00000000", "0x80000000", "0xffffffff"]}},
    "/admin/policies/t": {"adminRoles": []},
    "/admin/configuration": {"key": "text"},
    "/counters/ownership-epoch": 5,
}


async def filled(url: str) -> None:
    opened = await open_store(url)
    for path, value in VALUES.items():
        await opened.put(path, msgspec.json.encode(value))
    await opened.close()


def test_the_keys_are_those_of_brokers() -> None:
    roots = (BROKERS_ROOT, OWNERSHIP_ROOT, RECORDS_ROOT, LOCAL_POLICIES_ROOT.rstrip("/"), POLICIES_ROOT.rstrip("/"))
    assert roots == FOLDERS
    assert (LEADER_PATH, CHANNEL_LEADER_PATH, CONFIGURATION_PATH, FOLDER_KEY) == KEYS


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
async def test_all_that_a_store_says_is_read(kind: str, tmp_path: Path) -> None:
    url = f"{kind}:{tmp_path}/metadata"
    keeper = await open_store(url)  # a memory store lives while somebody has it open
    await filled(url)
    view = await read_store(url)
    await keeper.close()
    report = view.brokers["b1:8080"]
    assert report is not None
    assert report.last_update == 7
    assert view.leaders == {"/loadbalance/leader": "b1:8080"}
    assert view.locks == {BUNDLE: Lock("b1:8080", disabled=True)}
    assert view.records[BUNDLE].state is ServiceUnitState.OWNED
    assert view.boundaries == {"t/n": ("0x00000000", "0xffffffff")}
    assert len(view.copies["t/n"]) == 3
    assert (view.overrides, view.unreadable) == ({"key": "text"}, {})


async def test_a_file_is_read_without_leaving_anything_beside_it(tmp_path: Path) -> None:
    await filled(f"sqlite:{tmp_path}/metadata")
    before = {path.name for path in tmp_path.iterdir()}
    await read_store(f"sqlite:{tmp_path}/metadata")
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
async def test_more_keys_than_are_read_are_told(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_KEYS", 1)
    url = f"{kind}:{tmp_path}/metadata"
    keeper = await open_store(url)
    await filled(url)
    with pytest.raises(StoreUnreadableError, match="more than 1 keys"):
        await read_store(url)
    await keeper.close()


@pytest.mark.parametrize("url", ["sqlite:{}/none", "sqlite:{}", "nosuch:{}", "sqlite:{}/text"])
async def test_what_is_no_store_is_told_and_not_made(url: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no database, and longer than the header of one would have to be")
    with pytest.raises(StoreUnreadableError):
        await read_store(url.format(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


@given(st.lists(st.tuples(st.sampled_from([*FOLDERS, *KEYS]), st.text(max_size=12), st.binary(max_size=40))))
def test_no_key_or_value_whatever_is_more_than_unreadable(keys: list[tuple[str, str, bytes]]) -> None:
    stored = [(f"{folder}/{name}" if name else folder, value) for folder, name, value in keys]
    view = store_view("memory:x", stored)
    assert view.unreadable.keys() <= {path for path, _ in stored}


def test_what_is_leased_to_a_session_reads_as_what_is_ephemeral() -> None:
    stored = [(path, msgspec.json.encode(value)) for path, value in VALUES.items()]
    by_session = [(path, leased("a" * 32, value)) for path, value in stored]
    assert store_view("", by_session) == store_view("", stored)


@pytest.mark.parametrize("path", [*VALUES])
def test_a_value_that_is_none_of_its_kind_is_told(path: str) -> None:
    unreadable = store_view("", [(path, b"\xff")]).unreadable
    assert set(unreadable) == ({path} if path not in {"/admin/policies/t", "/counters/ownership-epoch"} else set())
    if path.startswith(stored_keys.BROKERS):
        assert store_view("", [(path, b"\xff")]).brokers == {"b1:8080": None}, "it is registered nevertheless"


def test_a_date_tells_the_least_and_the_greatest_by_which_a_clock_is_ahead() -> None:
    date = "Thu, 01 Jan 1970 00:00:12 GMT"
    assert clock_offset(date, 10_000, 10_200) == (1_800, 3_000)
    assert clock_offset("", 10_000, 10_200) is None
    assert clock_offset("Thu, 01 Jan 99999999 00:00:12 GMT", 1, 2) is None
