from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pulsar_barycenter.config.broker_conf import (
    ConfigError,
    default_config,
    dynamic_keys,
    keys,
    load_broker_conf,
    parse_broker_conf,
    read_pairs,
    runtime_values,
    validate_dynamic,
    with_overrides,
)
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.pulsar_version import FORMER_DEFAULTS, VERSIONS, PulsarVersion
from pulsar_barycenter.load.reports.weights import resource_weights


def test_pulsars_own_format_is_read(tmp_path: Path) -> None:
    """Comments, blank values, blanks around the sign, continuation lines; the last of two values counts."""
    path = tmp_path / "broker.conf"
    path.write_text(
        "# The cluster\n! and this too\n\nclusterName = c1\nmaxMessageSize=\nwebServicePort=\n"
        "loadBalancerSheddingExcludedNamespaces=a/b, \\\n  a/c\n"
        "brokerServicePort=1\nbrokerServicePort=6651\nallowAutoTopicCreation=False\n"
    )
    config = load_broker_conf(path).config
    assert config.cluster_name == "c1"
    assert config.max_message_size == BrokerConfig().max_message_size
    assert config.web_service_port is None  # a blank port is none, as in Pulsar
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
        ("leaderOnlyMetadataWrites", "leader", "false or administration or true"),
        ("brokerServicePortTls", "66510", "a whole number from 0 to 65535"),
        ("configurationMetadataStoreUrl", "memory:other", "blank or equal to metadataStoreUrl"),
        ("internalListenerName", "inside", "blank or the name of a listener in advertisedListeners"),
        ("authorizationEnabled", "true", "false unless authenticationEnabled=true"),
    ],
)
def test_a_bad_value_is_refused_with_key_value_and_what_is_allowed(key: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_broker_conf(f"{key}={value}\n", "f")
    assert (caught.value.key, caught.value.value) == (key, value)
    assert caught.value.allowed.startswith(allowed)
    assert all(part in str(caught.value) for part in (key, value, allowed))


def test_who_asks_what_clients_may_names_super_users() -> None:
    asked = "authenticationEnabled=true\nauthorizationEnabled=true\n"
    with pytest.raises(ConfigError, match="superUserRoles must be the roles of the brokers and of the administrators"):
        parse_broker_conf(asked, "f")
    assert parse_broker_conf(f"{asked}superUserRoles=broker,admin\n", "f").config.authorization_enabled


@pytest.mark.parametrize("url", ["zk:one:2181", "one:2181,two:2181/chroot", "oxia://one:6648/default"])
def test_the_leader_writes_for_all_only_where_reads_are_of_now(url: str) -> None:
    with pytest.raises(ConfigError, match="a ZooKeeper or Oxia: a read from these stores may return an old value"):
        parse_broker_conf(f"leaderOnlyMetadataWrites=true\nmetadataStoreUrl={url}\n", "f")
    for fit in ("sqlite:/data/metadata.sqlite", "etcd:http://one:2379", ""):
        parse_broker_conf(f"leaderOnlyMetadataWrites=true\nmetadataStoreUrl={fit}\n", "f")


def test_a_leader_grants_sessions_of_an_hour_at_most() -> None:
    parse_broker_conf("leaderOnlyMetadataWrites=true\nmetadataStoreSessionTimeoutMillis=3600000\n", "f")
    with pytest.raises(ConfigError, match="at most 3,600,000 where leaderOnlyMetadataWrites=true"):
        parse_broker_conf("leaderOnlyMetadataWrites=true\nmetadataStoreSessionTimeoutMillis=3600001\n", "f")


def test_every_key_with_bounds_refuses_what_lies_outside(subtests: pytest.Subtests) -> None:
    for key in sorted(keys()):
        with subtests.test(key=key):
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


@pytest.mark.parametrize(
    ("bind", "is_open"),
    [("127.0.0.1", False), ("::1", False), ("localhost", False), ("0.0.0.0", True), ("::", True), ("b1", True)],
)
def test_who_listens_beyond_loopback_and_asks_nobody_is_open_to_strangers(bind: str, is_open: bool) -> None:
    assert BrokerConfig(bind_address=bind).is_open_to_strangers is is_open
    assert not BrokerConfig(bind_address=bind, authentication_enabled=True).is_open_to_strangers


@pytest.mark.parametrize(
    ("settings", "opened_by"),
    [
        ({}, None),
        ({"authorization_enabled": True}, None),
        ({"anonymous_user_role": "guest"}, "anonymousUserRole=guest and authorizationEnabled=false"),
        ({"anonymous_user_role": "guest", "authorization_enabled": True, "super_user_roles": ("root",)}, None),
        (
            {"anonymous_user_role": "guest", "authorization_enabled": True, "super_user_roles": ("root", "guest")},
            "anonymousUserRole=guest among superUserRoles",
        ),
    ],
)
def test_who_lets_strangers_do_everything_by_a_role_is_open_to_them(
    settings: dict[str, Any], opened_by: str | None
) -> None:
    config = BrokerConfig(bind_address="0.0.0.0", authentication_enabled=True, **settings)
    assert config.opened_to_strangers_by == opened_by
    assert config.is_open_to_strangers is (opened_by is not None)
    assert not replace(config, bind_address="127.0.0.1").is_open_to_strangers


def test_the_former_spelling_of_bandwidth_weights_is_honoured() -> None:
    """The new key counts if it is not 1, else the old one."""
    old = BrokerConfig(load_balancer_bandwith_in_resource_weight=3.0)
    both = BrokerConfig(load_balancer_bandwith_out_resource_weight=3.0, load_balancer_bandwidth_out_resource_weight=2.0)
    assert (resource_weights(old).bandwidth_in, resource_weights(old).bandwidth_out) == (3.0, 1.0)
    assert resource_weights(both).bandwidth_out == 2.0


def test_the_version_that_is_followed_decides_the_defaults_and_a_key_that_is_set_wins() -> None:
    text = "barycenterPulsarCompatibility=4.x\nmaxUnloadPercentage=0.5\nloadBalancerLoadSheddingStrategy=\n"
    config = parse_broker_conf(text, "broker.conf").config
    assert config.load_balancer_load_shedding_strategy.endswith(".ThresholdShedder")
    assert config.load_balancer_load_placement_strategy.endswith(".LeastLongTermMessageRate")
    assert config.load_balancer_distribute_bundles_evenly_enabled
    assert config.max_unload_percentage == 0.5
    assert (config.default_number_of_namespace_bundles, config.default_number_of_system_namespace_bundles) == (4, None)
    newest = parse_broker_conf("maxUnloadPercentage=0.2\n", "broker.conf").config
    assert newest.load_balancer_load_shedding_strategy == newest.load_balancer_load_placement_strategy
    assert newest.load_balancer_load_shedding_strategy.endswith(".AvgShedder")
    assert not newest.load_balancer_distribute_bundles_evenly_enabled
    assert newest.max_unload_percentage == 0.2
    assert (newest.default_number_of_namespace_bundles, newest.default_number_of_system_namespace_bundles) == (32, 64)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_blank_value_at_run_time_is_the_default_of_the_version(version: PulsarVersion) -> None:
    changed = with_overrides(default_config(version), {"maxUnloadPercentage": "0.3"})
    assert with_overrides(changed, {"maxUnloadPercentage": ""}) == default_config(version)


def test_following_another_version_moves_what_was_a_default_and_nothing_else() -> None:
    former = default_config("4.x")
    assert with_overrides(former, {"barycenterPulsarCompatibility": "5.x"}) == BrokerConfig()
    kept = with_overrides(former, {"maxUnloadPercentage": "0.3", "clusterName": "c"})
    moved = with_overrides(kept, {"barycenterPulsarCompatibility": ""})
    assert (moved.max_unload_percentage, moved.cluster_name) == (0.3, "c")
    assert moved.load_balancer_load_shedding_strategy == BrokerConfig().load_balancer_load_shedding_strategy


def test_every_former_default_is_allowed_and_another_one_than_the_newest() -> None:
    for former in FORMER_DEFAULTS.values():
        for attribute, value in former.items():
            assert getattr(BrokerConfig(), attribute) != value
    for version in VERSIONS:
        texts = "".join(f"{key}={text}\n" for key, text in runtime_values(default_config(version)).items())
        assert parse_broker_conf(texts, "all").config == default_config(version)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("# c\n\nclusterName=c\nloadBalancerEnabled=abc\n", "f, line 4"),
        ("loadBalancerEnabled=true\nloadBalancerEnabled=abc\n", "f, line 2"),
        ("clusterName=\\\nd e\n", "f, line 1"),
        ("zooKeeperSessionTimeoutMillis=long\n", "f, line 1"),
        ("authenticationEnabled=true\nauthorizationEnabled=true\n", "f"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_its_file_and_line(text: str, place: str) -> None:
    """A key that is missing has no line, only a file."""
    with pytest.raises(ConfigError, match=rf"^{place}: \w+=.* is not allowed: ") as caught:
        parse_broker_conf(text, "f")
    assert caught.value.key in str(caught.value)
