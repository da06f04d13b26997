"""Stored permissions: any content is read, and a change keeps everything else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.broker.authorization import grants as module
from pulsar_barycenter.broker.authorization.grants import (
    Grants,
    NotGrantedError,
    TooManyGrantsError,
    grant,
    grant_on_subscription,
    grant_on_topic,
    permissions_at,
    read_grants,
    revoke,
    revoke_on_subscription,
    revoke_on_topic,
)
from pulsar_barycenter.naming.topic import TopicName

TOPIC = TopicName.parse("persistent://acme/orders/t")
STORED = {
    "namespace_auth": {"alice": ["produce"], "bob": None},
    "destination_auth": {str(TOPIC): {"bob": ["consume"]}, "persistent://acme/orders/u": {"bob": ["produce"]}},
    "subscription_auth_roles": {"s": ["alice", "bob"]},
    "of_a_later_pulsar": 7,
}


def test_what_pulsar_stored_is_read() -> None:
    found = read_grants(STORED, "Prefix")
    assert found.namespace == {"alice": {"produce"}, "bob": set()}
    assert found.topics[str(TOPIC)] == {"bob": {"consume"}}
    assert found.subscriptions == {"s": {"alice", "bob"}}
    assert found.subscription_auth_mode == "Prefix"
    assert read_grants(None, None) == Grants()
    assert read_grants({"namespace_auth": None}, "None") == Grants()


@pytest.mark.parametrize(
    ("stored", "mode"),
    [("text", None), ({"namespace_auth": ["alice"]}, None), ({"subscription_auth_roles": {"s": "alice"}}, None),
     ({"destination_auth": {"t": {"alice": 1}}}, None), (STORED, "Suffix"), (STORED, 7)],
)  # fmt: skip
def test_of_what_is_not_of_the_form_nothing_counts(stored: Any, mode: Any) -> None:
    assert read_grants(stored, mode) == Grants(is_legible=False)


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["namespace_auth", "destination_auth", "subscription_auth_roles", "x"]), inner)))  # fmt: skip
def test_whatever_is_stored_is_read_or_counts_for_nothing(stored: Any) -> None:
    found = read_grants(stored, None)
    assert found.is_legible or not found.namespace
    assert read_grants(grant(stored, "alice", ["produce"]), None).namespace["alice"] == {"produce"}


def test_a_grant_replaces_the_roles_former_one_and_nothing_else() -> None:
    changed = grant(STORED, "alice", ["consume", "consume"])
    assert changed == {**STORED, "namespace_auth": {"alice": ["consume"], "bob": None}}
    assert revoke(changed, "alice")["namespace_auth"] == {"bob": None}
    assert revoke(changed, "mallory")["namespace_auth"] == changed["namespace_auth"]
    assert STORED["namespace_auth"] == {"alice": ["produce"], "bob": None}, "what was given is left as it was"


def test_a_grant_on_a_topic_is_shown_with_those_of_its_namespace() -> None:
    changed = grant_on_topic(STORED, TOPIC, "alice", ["consume"])
    assert changed["destination_auth"][str(TOPIC)] == {"bob": ["consume"], "alice": ["consume"]}
    shown = {"alice": ["consume", "produce"], "bob": ["consume"]}
    assert permissions_at(read_grants(changed, None), TOPIC) == shown
    assert permissions_at(read_grants(changed, None), TOPIC.partition(0)) == shown


def test_a_revoked_grant_is_gone_from_the_topic_and_its_partitions() -> None:
    by_pulsar = {
        "destination_auth": {str(name): {"bob": ["consume"]} for name in (TOPIC, *map(TOPIC.partition, range(2)))}
    }
    by_pulsar["destination_auth"][f"{TOPIC}-partition-x"] = {"bob": ["produce"]}
    by_pulsar["destination_auth"][f"{TOPIC}-partition-0"]["eve"] = ["consume"]
    changed = revoke_on_topic(by_pulsar, TOPIC, "bob")
    assert changed["destination_auth"] == {
        f"{TOPIC}-partition-x": {"bob": ["produce"]},
        f"{TOPIC}-partition-0": {"eve": ["consume"]},
    }
    with pytest.raises(NotGrantedError, match="not set at the topic level"):
        revoke_on_topic(changed, TOPIC, "bob")


def test_roles_of_a_subscription_are_set_and_taken_out() -> None:
    changed = grant_on_subscription(STORED, "new", ["b", "a"])
    assert changed["subscription_auth_roles"] == {"s": ["alice", "bob"], "new": ["a", "b"]}
    assert revoke_on_subscription(changed, "new", "a")["subscription_auth_roles"]["new"] == ["b"]
    with pytest.raises(NotGrantedError, match="'other'"):
        revoke_on_subscription(changed, "other", "a")


def test_a_namespace_has_so_many_grants_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_GRANTS", 6)
    full = grant(STORED, "alice", ["consume"])  # two on the namespace, two on topics, two of a subscription
    for change in (
        lambda: grant(full, "carol", ["produce"]),
        lambda: grant_on_topic(full, TOPIC, "carol", ["produce"]),
        lambda: grant_on_subscription(full, "s", ["a", "b", "c"]),
    ):
        with pytest.raises(TooManyGrantsError, match="revoke some"):
            change()
