import pytest

from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import (
    NamespaceName,
    heartbeat_broker,
    heartbeat_namespaces,
    is_broker_bound,
    is_system_namespace,
    sla_monitor_broker,
    validate_entity_name,
)


def test_a_namespace_has_two_parts_or_three_in_the_legacy_form() -> None:
    assert NamespaceName.parse("t/ns").cluster is None
    legacy = NamespaceName.parse("t/c/ns")
    assert (legacy.tenant, legacy.cluster, legacy.local_name, legacy.is_v2) == ("t", "c", "ns", False)
    assert NamespaceName.of("t", "ns") is NamespaceName.parse("t/ns")


@pytest.mark.parametrize("text", ["", "t", "t/", "/ns", "t//ns", "a/b/c/d", "t/n s", "t/ns\n", "t/нс"])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidNameError):
        NamespaceName.parse(text)


@pytest.mark.parametrize("text", ["a", "A-b_c", "x=1:2.3", "-", "0"])
def test_entity_names_may_have_letters_digits_and_five_signs(text: str) -> None:
    validate_entity_name("Tenant", text)


@pytest.mark.parametrize("text", ["", "a b", "a/b", "a$", "ä", "٣", "a\n"])
def test_a_bad_entity_name_is_refused_by_its_kind(text: str) -> None:
    with pytest.raises(InvalidNameError, match="Cluster name is not valid"):
        validate_entity_name("Cluster", text)


def test_heartbeat_namespaces_name_their_broker() -> None:
    for namespace in heartbeat_namespaces("c", "b1:8080"):
        assert heartbeat_broker(namespace) == "b1:8080"
        assert is_broker_bound(namespace)
    assert [str(namespace) for namespace in heartbeat_namespaces("c", "b1:8080")] == [
        "pulsar/b1:8080",
        "pulsar/c/b1:8080",
    ]


def test_the_sla_monitor_namespace_names_its_broker() -> None:
    namespace = NamespaceName.parse("sla-monitor/c/b1:8080")
    assert sla_monitor_broker(namespace) == "b1:8080"
    assert sla_monitor_broker(NamespaceName.parse("sla-monitor/b1:8080")) == "b1:8080"
    assert heartbeat_broker(namespace) is None
    assert is_broker_bound(namespace)


@pytest.mark.parametrize("text", ["pulsar/system", "pulsar/b1", "pulsar/b1:80x", "other/b1:8080", "sla-monitor/b1"])
def test_other_namespaces_belong_to_no_broker(text: str) -> None:
    assert not is_broker_bound(NamespaceName.parse(text))


def test_the_system_namespace_is_known() -> None:
    assert is_system_namespace(NamespaceName.parse("pulsar/system"))
    assert not is_system_namespace(NamespaceName.parse("public/default"))
