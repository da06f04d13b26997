"""Parses the file broker.conf, which has Pulsar's format, and single keys that are changed at run time.

A line is `key=value`; blanks around key and value are removed. Lines that begin with `#` or `!` are comments. A line
that ends with a backslash continues in the next one. A blank value is the default. If a key is given twice, the last
one counts. There are no other escapes.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, get_type_hints

from msgspec import structs

from pulsar_barycenter.config.addresses import (
    ADVERTISED_ALLOWED,
    BIND_ALLOWED,
    CLUSTER_ALLOWED,
    LISTENERS_ALLOWED,
    ListenerError,
    is_address,
    is_cluster_name,
    is_host_name,
    listener_urls,
)
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.key import Key, format_value, key_name, key_of
from pulsar_barycenter.config.pulsar_version import COMPATIBILITY_KEY, FORMER_DEFAULTS, VERSIONS, PulsarVersion

FORMER_NAMES: Final = {
    "zookeeperServers": ("metadataStoreUrl", "zk:"),
    "configurationStoreServers": ("configurationMetadataStoreUrl", "zk:"),
    "globalZookeeperServers": ("configurationMetadataStoreUrl", "zk:"),
    "zooKeeperSessionTimeoutMillis": ("metadataStoreSessionTimeoutMillis", ""),
    "zooKeeperOperationTimeoutSeconds": ("metadataStoreOperationTimeoutSeconds", ""),
    "zooKeeperCacheExpirySeconds": ("metadataStoreCacheExpirySeconds", ""),
}
"""For each outdated name of a key: the current name, and a prefix to add to the value.

If a file has both names, the value of the current name counts.
"""


HIDDEN: Final = "*****"
"""The text that output shows instead of a secret value."""

_SECRET_WORDS: Final = ("password", "secret", "privatekey", "authparam", "authenticationparam", "credential")
"""If the name of an unknown key contains one of these words, its value is treated as secret."""


class ConfigError(ValueError):
    """A key whose value is not allowed. `allowed` describes the allowed values. The message hides a secret value.

    `place` is the file and line that has the value; blank if it does not come from a file.
    """

    def __init__(self, key: str, value: str, allowed: str, place: str = "") -> None:
        where = f"{place}: " if place else ""
        super().__init__(f"{where}{key}={shown(key, value)} is not allowed: {key} must be {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


class ConfFileError(ConfigError):
    """A file that is not a broker.conf: not text, or a line without `=`."""

    def __init__(self, place: str, line: str, detail: str) -> None:
        ValueError.__init__(self, f"{place}: {detail}. Correct the file")
        self.key = place
        self.value = line
        self.allowed = "key=value"


@dataclass(frozen=True, slots=True)
class ConfResult:
    """The configuration that was parsed, and the keys of the file that this program does not know, in file order."""

    config: BrokerConfig
    unknown_keys: tuple[str, ...]


@cache
def keys() -> Mapping[str, Key]:
    """Return the descriptions of all keys by name, in the order in which the documentation lists them."""
    hints = get_type_hints(BrokerConfig, include_extras=True)
    return {
        field.encode_name: key_of(field.encode_name, field.name, hints[field.name], field.default)
        for field in structs.fields(BrokerConfig)
    }


@cache
def dynamic_keys() -> tuple[str, ...]:
    """Return the names of the keys that may change at run time, sorted."""
    return tuple(sorted(name for name, key in keys().items() if key.dynamic))


def load_broker_conf(path: Path | str) -> ConfResult:
    """Read a broker.conf file; return its validated configuration, and the keys that this program does not know.

    Raises:
        OSError: the file cannot be read.
        ConfigError: a line or a value is not allowed.
    """
    return parse_broker_conf(read_conf_text(path), str(path))


def read_conf_text(path: Path | str) -> str:
    """Return the text of a configuration file.

    Raises:
        OSError: the file cannot be read.
        ConfFileError: the file is not text.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfFileError(
            str(path), "", f"this is not a text file in UTF-8 (byte {error.start} is not valid)"
        ) from error


def parse_broker_conf(text: str, source: str) -> ConfResult:
    """Parse the text of a broker.conf file; return its validated configuration, and the keys that this program does not
    know.

    `source` is the name of the file, for error messages.

    Raises:
        ConfigError: a line or a value is not allowed.
    """
    known: dict[str, str] = {}
    unknown: list[str] = []
    lines = _numbered_pairs(text, source)
    pairs = {name: value for name, (_, value) in lines.items()}
    origins = {name: name for name in pairs}
    for name, value in pairs.items():
        if name in keys():
            known[name] = value
        elif name in FORMER_NAMES:
            newer, prefix = FORMER_NAMES[name]
            if value and not pairs.get(newer):
                known[newer] = value if value.startswith(prefix) else prefix + value
                origins[newer] = name
        else:
            unknown.append(name)
    try:
        config = with_overrides(BrokerConfig(), known)
        _check_together(config)
    except ConfigError as error:
        origin = origins.get(error.key)
        place = f"{source}, line {lines[origin][0]}" if origin else source
        raise ConfigError(error.key, error.value, error.allowed, place) from None
    return ConfResult(config, tuple(unknown))


def read_pairs(text: str, source: str) -> dict[str, str]:
    """Return the keys and values in the text of a broker.conf file, in file order. Values are texts and are not
    validated.

    Raises:
        ConfigError: a line has no `=`.
    """
    return {name: value for name, (_, value) in _numbered_pairs(text, source).items()}


def _numbered_pairs(text: str, source: str) -> dict[str, tuple[int, str]]:
    """Return, for each key in the text of a broker.conf file, the number of the line where it begins, and its value."""
    pairs: dict[str, tuple[int, str]] = {}
    for number, line in _logical_lines(text):
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise ConfFileError(f"{source}, line {number}", line, f"the line {line!r} is not of the form key=value")
        pairs.pop(name.strip(), None)
        pairs[name.strip()] = (number, value.strip())
    return pairs


def with_overrides(config: BrokerConfig, overrides: Mapping[str, str]) -> BrokerConfig:
    """Return a copy of `config` in which the given keys have other values. A value is a text; a blank text means the
    default.

    If the overrides change the version of Pulsar, keys that have the default of the previous version get the default of
    the new one.

    Raises:
        ConfigError: a key is unknown, or a value is not allowed.
    """
    version: PulsarVersion = config.barycenter_pulsar_compatibility
    if COMPATIBILITY_KEY in overrides:
        version = parse_value(COMPATIBILITY_KEY, overrides[COMPATIBILITY_KEY])
        config = _for_version(config, version)
    changes = {_known(name, text).attribute: parse_value(name, text, version) for name, text in overrides.items()}
    return structs.replace(config, **changes) if changes else config


def default_config(version: PulsarVersion) -> BrokerConfig:
    """Return the configuration in which every key has its default in the given version of Pulsar."""
    return _for_version(BrokerConfig(), version)


def _for_version(config: BrokerConfig, version: PulsarVersion) -> BrokerConfig:
    """Return a copy of `config` for another version of Pulsar: values that are defaults of the previous version become
    those of `version`.
    """
    before = config.barycenter_pulsar_compatibility
    if version == before:
        return config
    concerned = [keys()[key_name(attribute)] for known in FORMER_DEFAULTS.values() for attribute in known]
    defaults = {
        key.attribute: key.default_of(version)
        for key in concerned
        if getattr(config, key.attribute) == key.default_of(before)
    }
    return structs.replace(config, barycenter_pulsar_compatibility=version, **defaults)


_STORES_WITH_CURRENT_READS: Final = ("sqlite:", "memory:", "etcd:")
"""The URL prefixes of stores with up-to-date reads: a read returns everything that was written before it began, by any
client.
"""

MAX_LEASED_SESSION_MS: Final = 3_600_000
"""The longest session in milliseconds that a leader grants if it writes the metadata for all brokers."""
_NEEDS_CURRENT_READS: Final = (
    "false or administration if metadataStoreUrl is a ZooKeeper or Oxia: a read from these stores may return an "
    "old value, but with true brokers read there until when they may serve bundles. See docs/leader-epochs.md"
)


def parse_value(name: str, text: str, version: PulsarVersion = VERSIONS[0]) -> Any:
    """Return the value of one key from its text. A blank text means the default of that version of Pulsar.

    Raises:
        ConfigError: the key is unknown, or the value is not allowed.
    """
    key = _known(name, text)
    try:
        return key.parse(text, version)
    except ValueError:
        raise ConfigError(name, text, key.allowed()) from None


def validate_dynamic(name: str, text: str) -> None:
    """Check that a key may be set to a value at run time.

    Raises:
        ConfigError: the key is unknown or not dynamic, or the value is not allowed.
    """
    if name not in keys() or not keys()[name].dynamic:
        raise ConfigError(
            name,
            text,
            "a dynamic key: only these can be set while brokers run; GET /admin/v2/brokers/configuration lists them",
        )
    parse_value(name, text)


def runtime_values(config: BrokerConfig) -> dict[str, str]:
    """Return every key with its value as a text that parses to the same configuration. Secrets are included."""
    return {name: format_value(getattr(config, key.attribute)) for name, key in keys().items()}


def shown_values(config: BrokerConfig) -> dict[str, str]:
    """Return every key with its value as a text for output. Secrets are hidden."""
    return {name: shown(name, text) for name, text in runtime_values(config).items()}


def shown(key: str, text: str) -> str:
    """Return the text of a value for output. If the key is secret, or by its name may be, the value is hidden."""
    known = keys().get(key)
    is_secret = (known is not None and known.secret) or any(word in key.lower() for word in _SECRET_WORDS)
    return HIDDEN if text and is_secret else text


_BOOKIE_URIS: Final = ("zk+hierarchical://", "zk+longhierarchical://", "zk+null://", "zk://", "metadata-store:")
_BOOKIE_URIS_TEXT: Final = " or ".join(_BOOKIE_URIS)


def _known(name: str, text: str) -> Key:
    key = keys().get(name)
    if key is None:
        raise ConfigError(name, text, f"a known key; {similar_keys(name)}")
    return key


def similar_keys(name: str) -> str:
    """Return a hint for an error about an unknown key: up to three known keys that are similar to `name`, or where all
    keys are listed.
    """
    near = difflib.get_close_matches(name, keys(), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(near)}?" if near else "docs/configuration.md lists the keys"


def _check_together(config: BrokerConfig) -> None:
    shared = config.configuration_metadata_store_url
    if shared and shared != config.effective_metadata_store_url:
        raise ConfigError("configurationMetadataStoreUrl", shared, "blank or equal to metadataStoreUrl")
    _check_addresses(config)
    internal = config.internal_listener_name
    if internal and internal not in listener_urls(config.advertised_listeners):
        raise ConfigError("internalListenerName", internal, "blank or the name of a listener in advertisedListeners")
    if config.authorization_enabled and not config.authentication_enabled:
        raise ConfigError(
            "authorizationEnabled",
            "true",
            "false unless authenticationEnabled=true, because permissions are granted to authenticated roles",
        )
    if config.authorization_enabled and not config.super_user_roles:
        raise ConfigError(
            "superUserRoles",
            "",
            "the roles of the brokers and of the administrators (not blank), because authorizationEnabled=true",
        )
    _check_bookies(config)
    writes = config.leader_only_metadata_writes
    if writes == "true" and not config.effective_metadata_store_url.startswith(_STORES_WITH_CURRENT_READS):
        raise ConfigError("leaderOnlyMetadataWrites", writes, _NEEDS_CURRENT_READS)
    session_ms = config.metadata_store_session_timeout_millis
    if writes == "true" and session_ms > MAX_LEASED_SESSION_MS:
        most = f"at most {MAX_LEASED_SESSION_MS:,} where leaderOnlyMetadataWrites=true"
        raise ConfigError("metadataStoreSessionTimeoutMillis", str(session_ms), most)


def _check_bookies(config: BrokerConfig) -> None:
    ensemble, copies = config.managed_ledger_default_ensemble_size, config.managed_ledger_default_write_quorum
    confirmed = config.managed_ledger_default_ack_quorum
    if copies > ensemble:
        most = f"at most managedLedgerDefaultEnsembleSize, which is {ensemble}"
        raise ConfigError("managedLedgerDefaultWriteQuorum", str(copies), most)
    if confirmed > copies:
        most = f"at most managedLedgerDefaultWriteQuorum, which is {copies}"
        raise ConfigError("managedLedgerDefaultAckQuorum", str(confirmed), most)
    records = config.barycenter_ledger_records
    if records == "pulsar" and config.barycenter_ledger_storage != "bookkeeper":
        raise ConfigError(
            "barycenterLedgerRecords",
            records,
            "barycenter unless barycenterLedgerStorage=bookkeeper: only with bookies can records have Pulsar's form",
        )
    uri = config.bookkeeper_metadata_service_uri
    if uri and not uri.startswith(_BOOKIE_URIS):
        raise ConfigError(
            "bookkeeperMetadataServiceUri",
            uri,
            f"blank or the URI of the bookies' metadata, which begins with {_BOOKIE_URIS_TEXT}",
        )
    if config.bookkeeper_tls_client_authentication:
        for key, file in (
            ("bookkeeperTLSTrustCertsFilePath", config.bookkeeper_tls_trust_certs_file_path),
            ("bookkeeperTLSCertificateFilePath", config.bookkeeper_tls_certificate_file_path),
            ("bookkeeperTLSKeyFilePath", config.bookkeeper_tls_key_file_path),
        ):
            if not file:
                raise ConfigError(key, "", "the path of a PEM file, because bookkeeperTLSClientAuthentication=true")


def _check_addresses(config: BrokerConfig) -> None:
    if not is_cluster_name(config.cluster_name):
        raise ConfigError("clusterName", config.cluster_name, CLUSTER_ALLOWED)
    if not is_address(config.bind_address):
        raise ConfigError("bindAddress", config.bind_address, BIND_ALLOWED)
    advertised = config.effective_advertised_address
    if advertised is not None and not is_host_name(advertised):
        raise ConfigError("advertisedAddress", config.advertised_address, ADVERTISED_ALLOWED)
    try:
        listener_urls(config.advertised_listeners)
    except ListenerError as error:
        raise ConfigError(
            "advertisedListeners", config.advertised_listeners, f"{LISTENERS_ALLOWED}; {error}"
        ) from error


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank and no comments, each with its line number.

    A line that ends with a backslash is joined with the next; its number is that of its first line.
    """
    joined, first = "", 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not joined and (not line or line[0] in "#!"):
            continue
        first = first if joined else number
        if line.endswith("\\"):
            joined += line[:-1]
            continue
        yield first, joined + line
        joined = ""
    if joined:
        yield first, joined
