"""The machine that owns by records: each duty has an action, and numbers count only for one incarnation."""

from collections.abc import Callable

import msgspec

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.broker.load_manager.extensible.extensible_load_manager import ExtensibleLoadManager
from pulsar_barycenter.broker.ownership.channel.machine.own_life import OwnLife
from pulsar_barycenter.broker.ownership.channel.machine.steps import PreparedNumber
from pulsar_barycenter.broker.ownership.channel.machine.term_guard import RecordsAlone
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.service_units.duties import Duty
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName
from support.control_cluster import ControlCluster, channel_of, on_virtual_time

BUNDLE = Bundle.full(NamespaceName.parse("public/default"))
OWNED = ServiceUnitStateData(ServiceUnitState.OWNED, dst_broker="a", version_id=7, epoch=1)


def numbered(epoch: int) -> ServiceUnitStateData:
    return msgspec.structs.replace(OWNED, epoch=epoch)


def in_a_life(check: Callable[[OwnLife], None]) -> None:
    """Have `check` called in a life that has begun."""

    async def scenario(cluster: ControlCluster) -> None:
        broker = cluster.make(8081)
        begun: list[int] = []
        tasks = BackgroundTasks("test_failed")

        async def live() -> None:
            registration = broker.plane.registration
            await broker.start()
            life = OwnLife(broker.store, registration, tasks, begun=lambda: begun.append(1))
            assert not life.has_begun
            life.start("a")
            await cluster.until(lambda: life.has_begun, "a life has begun")
            check(life)
            await tasks.close()

        await broker.run(live())
        assert begun == [1]

    on_virtual_time(scenario)


def test_every_duty_has_an_action() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        class_name = ManagerKind.EXTENSIBLE.class_name
        broker = cluster.make(8081, ExtensibleLoadManager, load_manager_class_name=class_name)
        actions = channel_of(broker.plane).ownership.settling.actions
        assert set(actions) == set(Duty) - {Duty.NOTHING, Duty.LET_GO}
        assert len({action.__qualname__ for action in actions.values()}) == len(actions)

    on_virtual_time(scenario)


def test_a_number_of_a_former_life_does_not_count() -> None:
    def check(life: OwnLife) -> None:
        assert not life.has_numbered(None)
        assert not life.has_numbered(msgspec.structs.replace(OWNED, epoch=None))
        assert not life.has_numbered(numbered(0))
        assert life.has_numbered(numbered(1_000_000))
        life.end()
        assert not life.has_numbered(numbered(1_000_000))

    in_a_life(check)


def test_a_bundle_is_not_served_by_a_number_that_is_not_above_its_floor() -> None:
    def check(life: OwnLife) -> None:
        record = numbered(1_000_000)
        life.raise_floor(BUNDLE, 1_000_000)
        assert not life.may_serve(BUNDLE, record)
        life.drop_floor(BUNDLE)
        assert life.may_serve(BUNDLE, record)
        assert not life.may_serve(BUNDLE, record, above=1_000_000)
        life.raise_floor(BUNDLE, 1_000_000)
        life.end()
        assert not life.may_serve(BUNDLE, record), "no life has begun"

    in_a_life(check)


def test_a_number_taken_ahead_is_for_the_next_step_of_its_transfer_alone() -> None:
    releasing = msgspec.structs.replace(OWNED, state=ServiceUnitState.RELEASING)
    assigning = msgspec.structs.replace(OWNED, state=ServiceUnitState.ASSIGNING, version_id=8)

    def check(life: OwnLife) -> None:
        life.prepare(BUNDLE, PreparedNumber(7, 5))
        life.record_changed(BUNDLE, releasing, assigning)
        assert life.take_prepared(BUNDLE, assigning) == 5
        assert life.take_prepared(BUNDLE, assigning) is None, "once"
        life.prepare(BUNDLE, PreparedNumber(7, 5))
        life.record_changed(BUNDLE, releasing, msgspec.structs.replace(assigning, version_id=9))
        assert life.take_prepared(BUNDLE, assigning) is None, "another record came between"
        life.prepare(BUNDLE, PreparedNumber(7, 5))
        life.end()
        assert life.take_prepared(BUNDLE, assigning) is None

    in_a_life(check)


async def test_where_no_broker_owns_by_locks_a_term_needs_a_number_alone() -> None:
    async def number() -> int:
        return 3

    guard = RecordsAlone(number)
    assert not guard.lacks(BUNDLE)
    assert not guard.holds(BUNDLE)
    assert await guard.number(BUNDLE, is_child=lambda: False) == 3
    assert await guard.owner(BUNDLE) is None
