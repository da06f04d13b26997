"""The settings of shedding and splitting before, during and after a pause."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.operations.executor import NotNowError, RefusedError
from pulsar_barycenter.operations.own_balancing import (
    OFF,
    PAUSED_KEYS,
    SHEDDING,
    SPLITTING,
    Balancing,
    Remembered,
    is_on,
    remember,
    to_pause,
    to_restore,
)
from support.virtual_time import on_virtual_time

VALUES = st.sampled_from(["true", "false"])


@given(st.fixed_dictionaries(dict.fromkeys(PAUSED_KEYS, VALUES)), st.dictionaries(st.sampled_from(PAUSED_KEYS), VALUES))
def test_a_pause_and_its_restoration_leave_what_was_there(in_file: dict[str, str], stored: dict[str, str]) -> None:
    in_force = {"a:1": {**in_file, **stored}}
    before = remember(stored, in_force)
    now = {**stored, **dict.fromkeys(to_pause(in_force), "false")}
    assert {**in_file, **now} == dict.fromkeys(PAUSED_KEYS, "false")
    for cut in range(3):  # the second attempt follows one that ended after some changes
        plan = to_restore(before, now, {"a:1": {**in_file, **now}})
        assert not plan.kept
        changes = [*plan.values.items()]
        now = {**now, **dict(changes[:cut])}
    plan = to_restore(before, now, {"a:1": {**in_file, **now}})
    now = {**now, **plan.values}
    assert {**in_file, **now} == {**in_file, **stored}
    assert {key: value for key, value in now.items() if key not in plan.deleted} == stored


def test_what_somebody_set_meanwhile_stays() -> None:
    in_force = {"a:1": dict.fromkeys(PAUSED_KEYS, "false")}
    plan = to_restore(remember({}, in_force), {SHEDDING: "true"}, in_force)
    assert (plan.values, plan.deleted, set(plan.kept)) == ({}, (), {SHEDDING})


def test_brokers_that_differ_are_named() -> None:
    in_force = {"a:1": dict.fromkeys(PAUSED_KEYS, "true"), "b:1": dict.fromkeys(PAUSED_KEYS, "false")}
    with pytest.raises(RefusedError, match="b:1: false"):
        remember({}, in_force)
    with pytest.raises(RefusedError, match="no value"):
        remember({}, {"a:1": {}})


class Cluster:
    """Two brokers with dynamic configuration: each uses a value one question after it was set, and keeps it when the
    override is removed."""

    def __init__(self, value: str = "true", override: str | None = None) -> None:
        self.stored = {} if override is None else {SHEDDING: override}
        self.in_force = [{SHEDDING: value, SPLITTING: "true"} for _ in range(2)]
        self.log: list[str] = []

    async def brokers(self) -> list[str]:
        return ["0", "1"]

    async def settings(self, broker: str = "") -> dict[str, str]:
        place = int(broker or 0)
        now = dict(self.in_force[place])
        self.in_force[place] |= self.stored
        return now

    async def overrides(self) -> dict[str, str]:
        return dict(self.stored)

    async def set_override(self, key: str, value: str) -> None:
        assert key == SHEDDING, "only the keys that were asked for"
        self.log.append(f"set {value}")
        self.stored[key] = value

    async def delete_override(self, key: str) -> None:
        self.log.append("delete")
        del self.stored[key]


def paused_and_restored(cluster: Cluster, before: tuple[Remembered, ...] = ()) -> None:
    """Switch the shedding of a cluster off and restore it, after the values that an earlier process remembered."""

    async def scene() -> None:
        balancing = Balancing(cluster, (SHEDDING,))
        found = before or await balancing.remembered()
        await balancing.pause()
        assert [settings[SHEDDING] for settings in cluster.in_force] == [OFF, OFF]
        assert all(is_on(SPLITTING, settings) for settings in cluster.in_force)
        await balancing.restore(found)

    on_virtual_time(lambda _world: scene())


@pytest.mark.parametrize(
    ("value", "override", "log"),
    [
        ("true", None, ["set false", "set true", "delete"]),
        ("true", "true", ["set false", "set true"]),
        ("false", "false", []),
        ("false", None, []),
    ],
)
def test_a_value_is_in_force_again_on_all_brokers_before_its_override_goes(
    value: str, override: str | None, log: list[str]
) -> None:
    cluster = Cluster(value, override)
    paused_and_restored(cluster)
    assert cluster.log == log
    assert [settings[SHEDDING] for settings in cluster.in_force] == [value, value]
    assert cluster.stored.get(SHEDDING) == override


@pytest.mark.parametrize("override", ["false", None])
def test_what_an_earlier_process_remembered_is_restored_also_if_only_brokers_have_it(override: str | None) -> None:
    """Without an override, somebody removed it: brokers use its value until they restart."""
    cluster = Cluster("false", override)
    paused_and_restored(cluster, (Remembered(key=SHEDDING, value="true", is_override=False),))
    assert (cluster.log, cluster.stored) == (["set true", "delete"], {})
    assert [settings[SHEDDING] for settings in cluster.in_force] == ["true", "true"]


def test_a_cluster_that_does_not_take_the_value_in_time_is_an_error() -> None:
    class Stubborn(Cluster):
        async def set_override(self, key: str, value: str) -> None:
            raise NotNowError("409")

    async def scene() -> None:
        with pytest.raises(TimeoutError):
            await Balancing(Stubborn()).pause()

    on_virtual_time(lambda _world: scene())


def test_a_broker_that_leaves_while_settings_are_restored_is_not_waited_for() -> None:
    """A killed broker is listed until its session ends, and does not answer meanwhile."""

    class Leaving(Cluster):
        lists = 0

        async def brokers(self) -> list[str]:
            self.lists += 1
            return ["0", "1"] if self.lists < 3 else ["1"]

        async def settings(self, broker: str = "") -> dict[str, str]:
            if broker == "0":
                raise NotNowError("no server listens there")
            return await super().settings(broker)

    async def scene() -> None:
        before = (Remembered(key=SHEDDING, value="true", is_override=True),)
        assert await Balancing(cluster, [SHEDDING]).restore(before) == {}

    cluster = Leaving("false", "false")
    on_virtual_time(lambda _world: scene())
    assert cluster.in_force[1][SHEDDING] == "true"
