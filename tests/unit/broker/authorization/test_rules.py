"""The rules of permissions alone: each of Pulsar's, and the laws that hold for any grants."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.admin.operations import NamespaceOperation, PolicyOperation, TenantOperation, TopicOperation
from pulsar_barycenter.broker.access.principal import NOBODY, Principal
from pulsar_barycenter.broker.authorization.grants import Grants
from pulsar_barycenter.broker.authorization.needs import (
    AuthAction,
    Authenticated,
    Need,
    OfNamespace,
    OfPolicy,
    OfTenant,
    OfTopic,
    Public,
    SuperUser,
)
from pulsar_barycenter.broker.authorization.rules import NAMESPACE_ACTIONS, TOPIC_ACTIONS, Roles, decide, granted_by
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

NAMESPACE = NamespaceName.parse("acme/orders")
TOPIC = TopicName.parse("persistent://acme/orders/t")
PART = TOPIC.partition(3)
OTHER = TopicName.parse("persistent://acme/orders/other")
ALICE = Principal("alice")
ROLES = Roles(frozenset({"root"}), frozenset({"proxy", "proxy2"}))
WILD = Roles(frozenset({"root"}), allows_wildcards=True)


def of(actions: str, role: str = "alice") -> dict[str, frozenset[str]]:
    return {role: frozenset(actions.split())}


def at(topic: TopicName, operation: TopicOperation, subscription: str | None = None) -> OfTopic:
    return OfTopic(topic, operation, subscription)


def allowed(need: Need, grants: Grants, who: Principal = ALICE, roles: Roles = ROLES) -> bool:
    return decide(who, need, roles, grants).allowed


EVERY_NEED: list[Need] = [
    Authenticated(),
    SuperUser(),
    *(OfTenant("acme", operation) for operation in TenantOperation),
    *(OfNamespace(NAMESPACE, operation) for operation in NamespaceOperation),
    *(OfPolicy(NAMESPACE, "ALL", operation) for operation in PolicyOperation),
    *(OfTopic(TOPIC, operation) for operation in TopicOperation),
    OfTopic(PART, TopicOperation.CONSUME, "s"),
    OfTopic(OTHER, TopicOperation.PRODUCE),
]
OF_THE_TENANT = EVERY_NEED[2:]


def test_every_operation_has_its_row() -> None:
    assert set(NAMESPACE_ACTIONS) == set(NamespaceOperation)
    assert set(TOPIC_ACTIONS) == set(TopicOperation)


def test_a_super_user_may_all_and_a_known_role_without_grants_only_be_known(subtests: pytest.Subtests) -> None:
    for need in EVERY_NEED:
        with subtests.test(need=str(need)):
            assert allowed(need, Grants(), Principal("root"))
            assert allowed(need, Grants()) is isinstance(need, Authenticated)
            assert decide(ALICE, need, ROLES, Grants(), {"alice"}).allowed is not isinstance(need, SuperUser)


def test_nobody_may_anything_that_is_not_public(subtests: pytest.Subtests) -> None:
    for need, who in product(EVERY_NEED, [NOBODY, Principal(""), Principal(None, "root")]):
        with subtests.test(need=str(need), who=str(who)):
            everything = Grants({"": frozenset(AuthAction), "*": frozenset(AuthAction)})
            verdict = decide(who, need, Roles(frozenset({""}), allows_wildcards=True), everything, {""})
            assert not verdict.allowed
            assert not verdict.is_known
            assert decide(who, Public(), ROLES).allowed


@pytest.mark.parametrize(
    ("granted", "operations"),
    [
        ("produce", {"LOOKUP", "GET_METADATA", "GET_STATS", "PRODUCE"}),
        (
            "consume",
            {"LOOKUP", "GET_METADATA", "GET_STATS", "CONSUME", "SUBSCRIBE", "UNSUBSCRIBE", "RESET_CURSOR"}
            | {"PEEK_MESSAGES", "GET_SUBSCRIPTIONS", "SKIP", "EXPIRE_MESSAGES", "GET_BACKLOG_SIZE"},
        ),
        ("functions sources sinks packages", set()),
    ],
)
def test_a_grant_gives_its_operations_at_the_topics_that_it_is_on(granted: str, operations: set[str]) -> None:
    for operation in TopicOperation:
        expected = operation.name in operations
        for grants in (Grants(of(granted)), Grants(topics={str(TOPIC): of(granted)})):
            assert allowed(at(TOPIC, operation), grants) is expected
            assert allowed(at(PART, operation), grants) is expected
            assert not allowed(at(TOPIC, operation), grants, Principal("bob"))
        assert allowed(at(OTHER, operation), Grants(of(granted))) is expected
        assert not allowed(at(OTHER, operation), Grants(topics={str(TOPIC): of(granted)}))
        assert not allowed(at(TOPIC, operation), Grants(topics={str(PART): of(granted)}))


@pytest.mark.parametrize(
    ("granted", "operations"),
    [
        ("produce", {"GET_TOPICS", "GET_BUNDLE"}),
        ("consume", {"GET_TOPICS", "GET_BUNDLE", "UNSUBSCRIBE", "CLEAR_BACKLOG"}),
        ("packages", {"PACKAGES"}),
        ("functions sources sinks", set()),
    ],
)
def test_a_grant_on_a_namespace_gives_its_operations_there(granted: str, operations: set[str]) -> None:
    for operation in NamespaceOperation:
        expected = operation.name in operations
        assert allowed(OfNamespace(NAMESPACE, operation), Grants(of(granted))) is expected
        assert not allowed(OfNamespace(NAMESPACE, operation), Grants(topics={str(TOPIC): of(granted)}))


def test_roles_in_grants_may_be_patterns_only_if_that_is_switched_on() -> None:
    produce = at(TOPIC, TopicOperation.PRODUCE)
    for pattern, matching, other in (("team-*", "team-a", "xteam-a"), ("*-team", "a-team", "a-teamx"), ("*", "x", "")):
        for grants in (Grants(of("produce", pattern)), Grants(topics={str(TOPIC): of("produce", pattern)})):
            assert allowed(produce, grants, Principal(matching), WILD)
            assert not allowed(produce, grants, Principal(other), WILD)
            assert not allowed(produce, grants, Principal(matching), ROLES)
            assert not allowed(at(TOPIC, TopicOperation.CONSUME), grants, Principal(matching), WILD)
    assert not allowed(produce, Grants(of("produce", "a*b")), Principal("axb"), WILD), "as Pulsar: at the ends alone"


def test_a_subscription_for_certain_roles_is_for_no_others() -> None:
    grants = Grants(
        {**of("consume"), **of("consume", "bob")}, subscriptions={"s": frozenset({"bob"}), "open": frozenset()}
    )
    for operation in (TopicOperation.CONSUME, TopicOperation.SUBSCRIBE, TopicOperation.UNSUBSCRIBE):
        assert not allowed(at(TOPIC, operation, "s"), grants)
        assert allowed(at(TOPIC, operation, "s"), grants, Principal("bob"))
        assert allowed(at(TOPIC, operation, "open"), grants)
    assert allowed(at(TOPIC, TopicOperation.CONSUME, "s"), grants, Principal("root"))
    assert decide(ALICE, at(TOPIC, TopicOperation.CONSUME, "s"), ROLES, grants, {"alice"}).allowed
    without = Grants(subscriptions={"s": frozenset({"bob"})})
    assert not allowed(at(TOPIC, TopicOperation.CONSUME, "s"), without, Principal("bob")), "it gives nothing by itself"


def test_subscriptions_begin_with_their_role_where_that_is_asked_for() -> None:
    grants = Grants(of("consume"), subscription_auth_mode="Prefix")
    assert allowed(at(TOPIC, TopicOperation.CONSUME, "alice-1"), grants)
    assert not allowed(at(TOPIC, TopicOperation.CONSUME, "mallory"), grants)
    assert allowed(at(TOPIC, TopicOperation.LOOKUP), grants)


def test_a_proxy_and_its_client_must_both_be_allowed() -> None:
    produce = at(TOPIC, TopicOperation.PRODUCE)
    both = Grants({**of("produce"), **of("produce", "proxy"), **of("produce", "proxy2")})
    assert allowed(produce, both, Principal("proxy", "alice"))
    assert not allowed(produce, Grants(of("produce")), Principal("proxy", "alice"))
    assert not allowed(produce, Grants(of("produce", "proxy")), Principal("proxy", "alice"))
    assert not allowed(produce, both, Principal("proxy")), "it does not say for whom"
    assert not allowed(produce, both, Principal("proxy", "")), "it does not say for whom"
    assert not allowed(produce, both, Principal("proxy", "proxy2")), "for another proxy"
    assert not allowed(produce, both, Principal("alice", "root")), "alice is no proxy"
    assert allowed(produce, both, Principal("alice", "alice"))
    assert not allowed(SuperUser(), both, Principal("proxy", "root"))


def test_a_verdict_says_which_rule_it_goes_by_and_what_is_missing() -> None:
    produce = at(PART, TopicOperation.PRODUCE)
    given = decide(ALICE, produce, ROLES, Grants(topics={str(TOPIC): of("produce")}))
    assert given.reason == f"'alice' has produce on topic {TOPIC}"
    assert decide(ALICE, produce, WILD, Grants(of("produce", "al*"))).reason == (
        "'alice' has produce (as al*) on namespace acme/orders"
    )
    missing = decide(ALICE, produce, ROLES, Grants(of("consume"))).reason
    assert missing == f"'alice' has no produce on topic {PART} and on its namespace"
    assert "does not administrate tenant acme" in decide(ALICE, at(TOPIC, TopicOperation.UNLOAD), ROLES).reason
    assert "cannot be decoded" in decide(ALICE, produce, ROLES, Grants(is_legible=False)).reason
    assert granted_by(TopicOperation.LOOKUP) == (
        "administrators of the tenant; consume or produce on the topic or its namespace"
    )


NAMES = st.sampled_from(["alice", "bob", "al*", "*ice", "*", "proxy", "root"])
ACTIONS = st.frozensets(st.sampled_from([action.value for action in AuthAction]))
BY_ROLE = st.dictionaries(NAMES, ACTIONS)
SUBSCRIPTIONS = st.dictionaries(st.sampled_from(["s", "alice-s"]), st.frozensets(st.sampled_from(["alice", "bob"])))
GRANTS = st.builds(
    Grants,
    BY_ROLE,
    st.dictionaries(st.sampled_from([str(TOPIC), str(PART), str(OTHER)]), BY_ROLE),
    SUBSCRIPTIONS,
    st.sampled_from(["None", "Prefix"]),
)
WHO = st.builds(Principal, st.sampled_from(["alice", "bob", "proxy"]), st.sampled_from([None, "alice", "bob"]))
ALL_ROLES = st.builds(
    Roles,
    st.frozensets(st.sampled_from(["root", "bob"])),
    st.frozensets(st.sampled_from(["proxy"])),
    st.booleans(),
)
ADMINS = st.frozensets(st.sampled_from(["alice", "bob", "proxy"]))


def more(one: dict[str, frozenset[str]], other: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    return {name: one.get(name, frozenset()) | other.get(name, frozenset()) for name in {*one, *other}}


@given(WHO, st.sampled_from(EVERY_NEED), ALL_ROLES, GRANTS, GRANTS, ADMINS, ADMINS)
def test_more_grants_never_allow_less(
    who: Principal,
    need: Need,
    roles: Roles,
    grants: Grants,
    further: Grants,
    admins: frozenset[str],
    others: frozenset[str],
) -> None:
    topics = {
        name: more(dict(grants.topics.get(name, {})), dict(further.topics.get(name, {})))
        for name in {*grants.topics, *further.topics}
    }
    larger = Grants(
        more(dict(grants.namespace), dict(further.namespace)),
        topics,
        grants.subscriptions,
        grants.subscription_auth_mode,
    )
    if decide(who, need, roles, grants, admins).allowed:
        assert decide(who, need, roles, larger, admins | others).allowed


@given(WHO, st.sampled_from(EVERY_NEED), ALL_ROLES, GRANTS, ADMINS)
def test_speaking_for_somebody_never_gives_more_than_speaking_for_oneself(
    who: Principal, need: Need, roles: Roles, grants: Grants, admins: frozenset[str]
) -> None:
    if decide(who, need, roles, grants, admins).allowed:
        plain = Roles(roles.super_users, allows_wildcards=roles.allows_wildcards)
        assert all(decide(Principal(role), need, plain, grants, admins).allowed for role in who.roles)


@given(st.sampled_from(OF_THE_TENANT), GRANTS, ALL_ROLES)
def test_whoever_stands_nowhere_may_nothing(need: Need, grants: Grants, roles: Roles) -> None:
    exact = Roles(roles.super_users, roles.proxies)
    assert not decide(Principal("mallory"), need, exact, grants).allowed
