"""The sources of values, and which values are not shown."""

import pytest

from pulsar_barycenter.config.broker_conf import HIDDEN, ConfigError, keys, shown
from pulsar_barycenter.config.sources import Source, source_of


@pytest.mark.parametrize(
    ("value", "default", "override", "source"),
    [
        ("1", "1", None, Source.DEFAULT),
        ("2", "1", None, Source.FILE),
        ("2", "1", "2", Source.DYNAMIC),
        ("1", "1", "1", Source.DYNAMIC),
        ("1", "1", "2", Source.DEFAULT),
        ("1", None, None, Source.UNKNOWN),
    ],
)
def test_an_override_counts_if_it_is_in_force(value: str, default: str, override: str, source: Source) -> None:
    assert source_of(value, default, override) is source


@pytest.mark.parametrize(
    "key", ["tokenSecretKey", "brokerClientAuthenticationParameters", "tlsKeyStorePassword", "brokerClientAuthParams"]
)
def test_what_may_be_a_secret_is_not_shown(key: str) -> None:
    assert shown(key, "hush") == HIDDEN
    assert shown(key, "") == ""
    assert shown("clusterName", "hush") == "hush"
    assert "hush" not in str(ConfigError(key, "hush", "a known key"))


def test_every_key_that_is_a_secret_is_hidden() -> None:
    secret = [name for name, key in keys().items() if key.secret]
    assert secret
    assert {shown(name, "hush") for name in secret} == {HIDDEN}
