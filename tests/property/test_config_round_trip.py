"""The texts of a configuration read back to the same configuration, for all allowed values."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pulsar_barycenter.config.broker_conf import MAX_LEASED_SESSION_MS, keys, parse_broker_conf, runtime_values
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.key import Key

WORDS = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_characters="\\,\x7f\x85\xa0"), min_size=1)

ADDRESSES = {
    "clusterName": ["blue", "a:b=c.d-e_f"],
    "advertisedAddress": ["broker-1.example.org", "10.0.0.1"],
    "advertisedListeners": ["inside:pulsar://broker-1:6650", "a:pulsar://[::1]:1,a:pulsar+ssl://b:2"],
    "bindAddress": ["0.0.0.0", "localhost", "::"],
    "bookkeeperMetadataServiceUri": ["zk+hierarchical://a:2181;b:2181/ledgers", "metadata-store:etcd:http://a:2379"],
}
"""Keys whose texts are not any texts."""


def values(key: Key) -> st.SearchStrategy[Any]:
    if not key.offered or key.name in ("configurationMetadataStoreUrl", "internalListenerName"):
        return st.just(key.default)
    if key.name in ADDRESSES:
        return st.sampled_from(ADDRESSES[key.name]) | st.just(key.default)
    if key.kind is bool:
        return st.booleans()
    if key.kind in (int, float):
        return numbers(key)
    words = st.sampled_from(key.choices) if key.choices else WORDS
    if key.kind is str:
        return words | st.just(key.default)
    return st.lists(words, min_size=1, max_size=3).map(tuple)


def numbers(key: Key) -> st.SearchStrategy[int | float]:
    if key.kind is int:
        lower = int(key.at_least) if key.at_least is not None else None
        return st.integers(lower, int(key.at_most) if key.at_most is not None else 2**53)
    lower_bound = key.at_least if key.at_least is not None else key.above
    return st.floats(
        lower_bound,
        key.at_most if key.at_most is not None else 1e300,
        exclude_min=key.above is not None,
        allow_nan=False,
        allow_subnormal=False,
    ).map(lambda value: math.fabs(value))


def together(changes: dict[str, Any]) -> BrokerConfig:
    """Return a configuration of these values in which dependent keys match."""
    if changes.get("authorization_enabled"):
        changes = {"super_user_roles": ("root",), **changes, "authentication_enabled": True}
    if changes.get("leader_only_metadata_writes") == "true":
        session_ms = changes.get("metadata_store_session_timeout_millis", 30_000)
        changes = changes | {
            "metadata_store_url": "sqlite:/data/metadata.sqlite",
            "metadata_store_session_timeout_millis": min(session_ms, MAX_LEASED_SESSION_MS),
        }
    if changes.get("barycenter_ledger_records") == "pulsar":
        changes = changes | {"barycenter_ledger_storage": "bookkeeper"}
    if changes.get("bookkeeper_tls_client_authentication"):
        files = ("trust_certs_file_path", "certificate_file_path", "key_file_path")
        changes = {f"bookkeeper_tls_{file}": "/tls/file.pem" for file in files} | changes
        changes = changes | {
            f"bookkeeper_tls_{file}": changes[f"bookkeeper_tls_{file}"] or "/tls/file.pem" for file in files
        }
    ensemble = changes.get("managed_ledger_default_ensemble_size", 2)
    write = min(changes.get("managed_ledger_default_write_quorum", 2), ensemble)
    changes = changes | {
        "managed_ledger_default_write_quorum": write,
        "managed_ledger_default_ack_quorum": min(changes.get("managed_ledger_default_ack_quorum", 2), write),
    }
    return structs.replace(BrokerConfig(), **changes)


CONFIGS = st.fixed_dictionaries({}, optional={key.attribute: values(key) for key in keys().values()}).map(together)


@given(CONFIGS)
def test_every_key_round_trips_through_a_file(config: BrokerConfig) -> None:
    text = "".join(f"{key}={value}\n" for key, value in runtime_values(config).items())
    result = parse_broker_conf(text, "generated")
    assert result.config == config
    assert result.unknown_keys == ()
