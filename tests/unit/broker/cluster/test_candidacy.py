"""A broker without numpy leads only while no registered broker balances, and assigns bundles by their number."""

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.cluster.candidacy import PASSED_S, PATIENCE_S, CandidateOfLastResort, can_lead
from pulsar_barycenter.broker.cluster.leadership import LEADER_PATH
from pulsar_barycenter.broker.control import parts
from pulsar_barycenter.broker.load_manager import factory
from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.load.installed import BalanceNotInstalledError
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from support.balanced_cluster import Balanced, settled
from support.control_cluster import SESSION_S, ControlCluster, on_virtual_time, topic


async def started(cluster: ControlCluster, monkeypatch: pytest.MonkeyPatch, port: int, *, balances: bool) -> Balanced:
    with monkeypatch.context() as patched:
        patched.setattr(parts, "can_balance", lambda: balances)
        return await Balanced(cluster, port).start()


def leads(broker: Balanced) -> bool:
    return broker.broker.plane.leadership.is_leader()


def test_alone_it_leads_and_assigns_and_its_reports_say_that_it_only_assigns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(4)
        with capture_logs() as logs:
            broker = await started(cluster, monkeypatch, 8080, balances=False)
        (told,) = [line for line in logs if line["event"] == "broker_only_assigns"]
        assert told["to_change"] == "pip install 'pulsar-barycenter[balance]'"
        assert leads(broker)
        assert (await cluster.follow(topic("a"), broker.broker)).broker_id == broker.id
        (assigned,) = broker.told("assign")
        assert "it has the fewest bundles" in assigned.sentence
        record = await cluster.admin.get(f"/loadbalance/brokers/{broker.id}")
        assert record is not None
        assert msgspec.json.decode(record.value)["onlyAssigns"] is True
        await broker.do(lambda manager: manager.shed())
        await broker.do(lambda manager: manager.check_splits())
        await broker.do(lambda manager: manager.write_resource_quotas())
        document = await broker.do(lambda manager: manager.snapshot_document())
        assert set(document.brokers) == {broker.id}

    on_virtual_time(scenario)


def test_bundles_that_it_assigns_one_after_the_other_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = await cluster.create_namespace(8)
        brokers = [await started(cluster, monkeypatch, 8080 + index, balances=False) for index in range(2)]
        await settled(brokers)
        (leader,) = filter(leads, brokers)
        chosen = [await leader.do(lambda manager, b=bundle: manager.select_broker(b)) for bundle in made.bundles]
        assert sorted(placement.broker for placement in chosen) == [brokers[0].id] * 4 + [brokers[1].id] * 4
        again = await leader.do(lambda manager: manager.select_broker(made.bundles[0]))
        assert again.broker == chosen[0].broker, "look-ups within a moment get the same answer"

    on_virtual_time(scenario)


def test_it_gives_the_lead_to_a_broker_that_balances_and_takes_it_when_that_one_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        plain = await started(cluster, monkeypatch, 8080, balances=False)
        assert leads(plain)
        able = await started(cluster, monkeypatch, 8081, balances=True)
        await cluster.until(lambda: leads(able) and not leads(plain), "the broker that balances leads")
        third = await started(cluster, monkeypatch, 8082, balances=False)
        await cluster.until(lambda: third.broker.plane.leadership.leader() is not None, "it knows the leader")
        assert leads(able)
        leader = await third.broker.run(third.broker.plane.leadership.current_leader())
        assert leader is not None
        assert leader.broker_id == able.id
        able.broker.crash()
        await cluster.until(lambda: leads(plain) or leads(third), "a broker that only assigns leads again")
        assert leads(plain) is not leads(third)

    on_virtual_time(scenario)


def test_after_it_left_it_stands_in_no_election(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        able = await started(cluster, monkeypatch, 8080, balances=True)
        plain = await started(cluster, monkeypatch, 8081, balances=False)
        await plain.broker.run(plain.broker.plane.leave(reason="test"))
        able.broker.crash()
        await asyncio.sleep(4 * SESSION_S)
        assert not await cluster.admin.exists(LEADER_PATH)
        assert not leads(plain)

    on_virtual_time(scenario)


def test_a_broker_that_is_registered_and_does_not_lead_is_passed_over_until_it_restarts() -> None:
    """As one that died where the leader writes all metadata: only a leader deletes its registration."""

    class Seen:
        brokers = frozenset({"able:1"})
        incarnation = "first"

        async def data_of(self, broker: str) -> LocalBrokerData:
            return LocalBrokerData(load_manager_class_name=ManagerKind.MODULAR.class_name, incarnation=self.incarnation)

        async def wait_change(self, timeout_s: float) -> None:
            await asyncio.sleep(timeout_s)

    class Part:
        takes_part = False
        known: str | None = "able:1"

        def leader(self) -> str | None:
            return "me:1" if self.takes_part else self.known

        async def leave_to_others(self) -> None:
            self.takes_part = False

        def take_part(self) -> None:
            self.takes_part = True

    async def scenario(_cluster: ControlCluster) -> None:
        seen, part = Seen(), Part()
        candidacy = CandidateOfLastResort(seen, part, by_records=False)  # type: ignore[arg-type]
        await candidacy.start("me:1")
        await asyncio.sleep(10 * PATIENCE_S)
        assert not part.takes_part
        part.known = None
        await asyncio.sleep(PATIENCE_S - 2)
        assert not part.takes_part
        await asyncio.sleep(4)
        assert part.takes_part
        await asyncio.sleep(PASSED_S / 2)
        assert part.takes_part
        seen.incarnation, part.known = "second", "able:1"
        await asyncio.sleep(2)
        assert not part.takes_part
        part.known = None
        await asyncio.sleep(PATIENCE_S + 2)
        assert part.takes_part
        part.known = "able:1"
        await asyncio.sleep(PASSED_S)
        assert not part.takes_part
        await candidacy.close()

    on_virtual_time(scenario)


@pytest.mark.parametrize(
    ("data", "by_records", "found"),
    [
        (LocalBrokerData(load_manager_class_name=ManagerKind.MODULAR.class_name), False, True),
        (LocalBrokerData(load_manager_class_name=ManagerKind.MODULAR.class_name, only_assigns=True), False, False),
        (LocalBrokerData(load_manager_class_name=ManagerKind.EXTENSIBLE.class_name), False, False),
        (LocalBrokerData(load_manager_class_name=ManagerKind.EXTENSIBLE.class_name), True, True),
        (LocalBrokerData(load_manager_class_name=ManagerKind.NOOP.class_name), False, False),
        (LocalBrokerData(load_manager_class_name="of.another.Manager"), False, True),
    ],
)
def test_who_can_lead(data: LocalBrokerData, by_records: bool, found: bool) -> None:
    assert can_lead(data, by_records=by_records) is found


def test_the_simple_load_manager_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factory, "can_balance", lambda: False)
    with pytest.raises(BalanceNotInstalledError, match=r"pip install 'pulsar-barycenter\[balance\]'"):
        load_manager_factory("SimpleLoadManagerImpl")
