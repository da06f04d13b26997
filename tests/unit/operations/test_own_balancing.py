"""The settings of shedding and splitting before, during and after a pause."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.operations.executor import RefusedError
from pulsar_barycenter.operations.own_balancing import PAUSED_KEYS, SHEDDING, remember, to_pause, to_restore

VALUES = st.sampled_from(["true", "false"])


@given(st.fixed_dictionaries(dict.fromkeys(PAUSED_KEYS, VALUES)), st.dictionaries(st.sampled_from(PAUSED_KEYS), VALUES))
def test_a_pause_and_its_restoration_leave_what_was_there(in_file: dict[str, str], stored: dict[str, str]) -> None:
    in_force = {"a:1": {**in_file, **stored}}
    before = remember(stored, in_force)
    now = {**stored, **dict.fromkeys(to_pause(in_force), "false")}
    assert {**in_file, **now} == dict.fromkeys(PAUSED_KEYS, "false")
    for cut in range(3):  # the second attempt follows one that ended after some changes
        plan = to_restore(before, now)
        assert not plan.kept
        changes = [*plan.values.items()]
        now = {**now, **dict(changes[:cut])}
    plan = to_restore(before, now)
    now = {**now, **plan.values}
    assert {**in_file, **now} == {**in_file, **stored}
    assert {key: value for key, value in now.items() if key not in plan.deleted} == stored


def test_what_somebody_set_meanwhile_stays() -> None:
    in_force = {"a:1": dict.fromkeys(PAUSED_KEYS, "false")}
    plan = to_restore(remember({}, in_force), {SHEDDING: "true"})
    assert (plan.values, plan.deleted, set(plan.kept)) == ({}, (), {SHEDDING})


def test_brokers_that_differ_are_named() -> None:
    in_force = {"a:1": dict.fromkeys(PAUSED_KEYS, "true"), "b:1": dict.fromkeys(PAUSED_KEYS, "false")}
    with pytest.raises(RefusedError, match="b:1: false"):
        remember({}, in_force)
    with pytest.raises(RefusedError, match="no value"):
        remember({}, {"a:1": {}})
