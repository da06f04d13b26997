from pathlib import Path

import pytest

from barycenter.config.broker_conf import (
    ConfigError,
    dynamic_keys,
    keys,
    load_broker_conf,
    parse_broker_conf,
    read_pairs,
    runtime_values,
    validate_dynamic,
    with_overrides,
)
from barycenter.config.broker_config import BrokerConfig


def test_pulsars_own_format_is_read(tmp_path: Path) -> None:
    """Comments, blank values, blanks around the sign, continuation lines; the last of two values counts."""
    path = tmp_path / "broker.conf"
    path.write_text(
        "# The cluster\n! and this too\n\nclusterName = c1\nwebServicePort=\n"
        "loadBalancerSheddingExcludedNamespaces=a/b, \\\n  a/c\n"
        "brokerServicePort=1\nbrokerServicePort=6651\nallowAutoTopicCreation=False\n"
    )
    config = load_broker_conf(path).config
    assert config.cluster_name == "c1"
    assert config.web_service_port == 8080
    assert config.load_balancer_shedding_excluded_namespaces == ("a/b", "a/c")
    assert config.broker_service_port == 6651
    assert config.allow_auto_topic_creation is False


def test_unknown_keys_are_named_in_their_order() -> None:
    assert parse_broker_conf("zzz=1\nclusterName=c\naaa=\n", "f").unknown_keys == ("zzz", "aaa")


def test_a_line_without_a_sign_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"f\.conf, line 2"):
        read_pairs("a=1\nnonsense\n", "f.conf")


def test_older_names_stand_for_newer_ones() -> None:
    config = parse_broker_conf("zookeeperServers=h:2181\nzooKeeperSessionTimeoutMillis=5000\n", "f").config
    assert config.metadata_store_url == "zk:h:2181"
    assert config.metadata_store_session_timeout_millis == 5000
    assert parse_broker_conf("zookeeperServers=h:1\nmetadataStoreUrl=memory:a\n", "f").config.metadata_store_url == (
        "memory:a"
    )


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("loadBalancerBrokerOverloadedThresholdPercentage", "101", "a whole number from 0 to 100"),
        ("loadBalancerBrokerOverloadedThresholdPercentage", "8.5", "a whole number from 0 to 100"),
        ("loadBalancerSheddingIntervalMinutes", "0", "a number above 0"),
        ("loadBalancerSheddingIntervalMinutes", "nan", "a number above 0"),
        ("loadBalancerSheddingIntervalMinutes", "1e999", "a number above 0"),
        ("loadBalancerNamespaceBundleMaxSessions", "-2", "a whole number of at least -1"),
        ("loadBalancerHistoryResourcePercentage", "1.5", "a number from 0 to 1"),
        ("brokerServicePort", "65536", "a whole number from 0 to 65535"),
        ("loadBalancerEnabled", "yes", "true or false"),
        ("allowAutoTopicCreationType", "both", "non-partitioned or partitioned"),
        ("defaultNamespaceBundleSplitAlgorithm", "halves", "range_equally_divide or topic_count_equally_divide"),
        ("supportedNamespaceBundleSplitAlgorithms", "range_equally_divide,halves", "range_equally_divide or"),
        ("authenticationEnabled", "true", "false"),
        ("brokerServicePortTls", "6651", "blank"),
        ("configurationMetadataStoreUrl", "memory:other", "blank or equal to metadataStoreUrl"),
    ],
)
def test_a_bad_value_is_refused_with_key_value_and_what_is_allowed(key: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_broker_conf(f"{key}={value}\n", "f")
    assert (caught.value.key, caught.value.value) == (key, value)
    assert caught.value.allowed.startswith(allowed)
    assert all(part in str(caught.value) for part in (key, value, allowed))


@pytest.mark.parametrize("key", sorted(keys()))
def test_every_key_with_bounds_refuses_what_lies_outside(key: str) -> None:
    described = keys()[key]
    outside = {
        bool: ["maybe", "2"],
        int: ["x", "1.5", "--1"],
        float: ["x", "inf", "-inf", "nan"],
    }.get(described.kind, [])
    if described.at_least is not None:
        outside.append(str(int(described.at_least) - 1))
    if described.above is not None:
        outside.append(str(described.above))
    if described.at_most is not None:
        outside.append(str(int(described.at_most) + 1))
    if described.choices:
        outside.append("no such choice")
    for text in outside:
        with pytest.raises(ConfigError):
            with_overrides(BrokerConfig(), {key: text})


def test_only_dynamic_keys_change_at_run_time() -> None:
    validate_dynamic("loadBalancerSheddingEnabled", "false")
    for key, text in (("clusterName", "c"), ("noSuchKey", "1"), ("loadBalancerSheddingEnabled", "perhaps")):
        with pytest.raises(ConfigError):
            validate_dynamic(key, text)
    assert "loadBalancerSheddingEnabled" in dynamic_keys()
    assert "clusterName" not in dynamic_keys()


def test_runtime_values_are_pulsars_texts() -> None:
    values = runtime_values(BrokerConfig(load_balancer_cpu_resource_weight=0.25))
    assert values["loadBalancerCPUResourceWeight"] == "0.25"
    assert values["loadBalancerSheddingIntervalMinutes"] == "1"
    assert values["loadBalancerEnabled"] == "true"
    assert values["webServicePortTls"] == ""
    assert set(values) == set(keys())


@pytest.mark.parametrize(
    ("bind", "advertised", "expected"),
    [
        ("127.0.0.1", "", "127.0.0.1"),
        ("localhost", "", "127.0.0.1"),
        ("0.0.0.0", "", None),
        ("0.0.0.0", "b1", "b1"),
        ("10.0.0.7", "", "10.0.0.7"),
        ("b2.example", "", "b2.example"),
    ],
)
def test_the_advertised_address_follows_the_bound_one(bind: str, advertised: str, expected: str | None) -> None:
    assert BrokerConfig(bind_address=bind, advertised_address=advertised).effective_advertised_address == expected


def test_the_former_spelling_of_bandwidth_weights_is_honoured() -> None:
    """The new key counts if it is not 1, else the old one."""
    old = BrokerConfig(load_balancer_bandwith_in_resource_weight=3.0)
    both = BrokerConfig(load_balancer_bandwith_out_resource_weight=3.0, load_balancer_bandwidth_out_resource_weight=2.0)
    assert (old.bandwidth_in_weight, old.bandwidth_out_weight) == (3.0, 1.0)
    assert both.bandwidth_out_weight == 2.0
