"""Reading broker.conf, Pulsar's own format, and the same keys changed one by one at run time.

A line is `key=value`; blanks around both are dropped; lines that begin with `#` or `!` are comments; a line that
ends with a backslash goes on in the next one; a blank value is the default; of a key given twice the last counts.
There are no escapes besides.
"""

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
"""Older spellings: the key they stand for, and what their value lacks. The newer key wins if both are given."""


HIDDEN: Final = "*****"

_SECRET_WORDS: Final = ("password", "secret", "privatekey", "authparam", "authenticationparam", "credential")
"""Of names of keys that are not known here."""
"""What is shown of a value that is a secret."""


class ConfigError(ValueError):
    """A key whose value is not allowed; `allowed` says in words what is. The text has the value as it may be shown.

    `place` is the file and line where the value was read; blank if it is from no file.
    """

    def __init__(self, key: str, value: str, allowed: str, place: str = "") -> None:
        where = f"{place}: " if place else ""
        super().__init__(f"{where}{key}={shown(key, value)} is not allowed: {key} must be {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


class ConfFileError(ConfigError):
    """A file that is no broker.conf: not text, or a line without `=`."""

    def __init__(self, place: str, line: str, detail: str) -> None:
        ValueError.__init__(self, f"{place}: {detail}")
        self.key = place
        self.value = line
        self.allowed = "key=value"


@dataclass(frozen=True, slots=True)
class ConfResult:
    """A configuration, and the keys of its source that no broker here knows, in the order they came."""

    config: BrokerConfig
    unknown_keys: tuple[str, ...]


@cache
def keys() -> Mapping[str, Key]:
    """Return every key by its name, in the order of the documentation."""
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
    """Read and check a file.

    Raises:
        OSError: it cannot be read.
        ConfigError: a line or a value is not allowed.
    """
    return parse_broker_conf(read_conf_text(path), str(path))


def read_conf_text(path: Path | str) -> str:
    """Return the text of a file.

    Raises:
        OSError: it cannot be read.
        ConfFileError: it is not text.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfFileError(str(path), "", f"not a text file in UTF-8 (byte {error.start})") from error


def parse_broker_conf(text: str, source: str) -> ConfResult:
    """Check the text of a file; `source` is its name in messages.

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
    """Return the keys and values of a file as texts, in file order, unchecked.

    Raises:
        ConfigError: a line has no `=`.
    """
    return {name: value for name, (_, value) in _numbered_pairs(text, source).items()}


def _numbered_pairs(text: str, source: str) -> dict[str, tuple[int, str]]:
    """Return for each key the number of the line where it begins, and its value."""
    pairs: dict[str, tuple[int, str]] = {}
    for number, line in _logical_lines(text):
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise ConfFileError(f"{source}, line {number}", line, f"{line!r} is not of the form key=value")
        pairs.pop(name.strip(), None)
        pairs[name.strip()] = (number, value.strip())
    return pairs


def with_overrides(config: BrokerConfig, overrides: Mapping[str, str]) -> BrokerConfig:
    """Return `config` with the given keys set from their texts; a blank text sets the default.

    If they change which version of Pulsar is followed, keys that still have the default of the one before get that of
    the other.

    Raises:
        ConfigError: a key is unknown, or a value is not allowed.
    """
    version: PulsarVersion = config.barycenter_pulsar_compatibility
    if COMPATIBILITY_KEY in overrides:
        version = parse_value(COMPATIBILITY_KEY, overrides[COMPATIBILITY_KEY])
        config = _moved(config, version)
    changes = {_known(name, text).attribute: parse_value(name, text, version) for name, text in overrides.items()}
    return structs.replace(config, **changes) if changes else config


def default_config(version: PulsarVersion) -> BrokerConfig:
    """Return the defaults by a version of Pulsar."""
    return _moved(BrokerConfig(), version)


def _moved(config: BrokerConfig, version: PulsarVersion) -> BrokerConfig:
    """Return `config` by another version: each default of the one before becomes the other's."""
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


_READ_AS_OF_NOW: Final = ("sqlite:", "memory:", "etcd:")
"""What the URLs of stores begin with of which a read returns what was written before it began, by whomever."""

LONGEST_LEASED_SESSION_MS: Final = 3_600_000
"""The longest session that a leader grants where it writes for all."""
_NOT_WHERE_READS_ARE_OLD: Final = (
    "false or administration where metadataStoreUrl is that of a ZooKeeper or an Oxia: reads may be of a while ago, "
    "and brokers read there how long they may serve. docs/leader-epochs.md"
)


def parse_value(name: str, text: str, version: PulsarVersion = VERSIONS[0]) -> Any:
    """Return the value of one key from its text; blank is the default by that version of Pulsar.

    Raises:
        ConfigError: the key is unknown, or the value is not allowed.
    """
    key = _known(name, text)
    try:
        return key.parse(text, version)
    except ValueError:
        raise ConfigError(name, text, key.allowed()) from None


def validate_dynamic(name: str, text: str) -> None:
    """Check a change at run time.

    Raises:
        ConfigError: the key is unknown or not dynamic, or the value is not allowed.
    """
    if name not in keys() or not keys()[name].dynamic:
        raise ConfigError(name, text, "a dynamic key, one of those at /admin/v2/brokers/configuration")
    parse_value(name, text)


def runtime_values(config: BrokerConfig) -> dict[str, str]:
    """Return every key with its value as a text that parses back to the same configuration; secrets, too."""
    return {name: format_value(getattr(config, key.attribute)) for name, key in keys().items()}


def shown_values(config: BrokerConfig) -> dict[str, str]:
    """Return every key with its value as a text that anybody may see: of a secret only whether there is one."""
    return {name: shown(name, text) for name, text in runtime_values(config).items()}


def shown(key: str, text: str) -> str:
    """Return a value as it may be shown: what is a secret, or by its name may be, is not, unless it is blank."""
    known = keys().get(key)
    is_secret = (known is not None and known.secret) or any(word in key.lower() for word in _SECRET_WORDS)
    return HIDDEN if text and is_secret else text


def _known(name: str, text: str) -> Key:
    key = keys().get(name)
    if key is None:
        raise ConfigError(name, text, "a known key")
    return key


def _check_together(config: BrokerConfig) -> None:
    shared = config.configuration_metadata_store_url
    if shared and shared != config.effective_metadata_store_url:
        raise ConfigError("configurationMetadataStoreUrl", shared, "blank or equal to metadataStoreUrl")
    _check_addresses(config)
    internal = config.internal_listener_name
    if internal and internal not in listener_urls(config.advertised_listeners):
        raise ConfigError("internalListenerName", internal, "blank or the name of one of advertisedListeners")
    if config.authorization_enabled and not config.authentication_enabled:
        raise ConfigError(
            "authorizationEnabled",
            "true",
            "false unless authenticationEnabled=true: what somebody may goes by who it is",
        )
    if config.authorization_enabled and not config.super_user_roles:
        raise ConfigError(
            "superUserRoles",
            "",
            "the role of brokers among themselves, and of who administrates them, where authorizationEnabled=true",
        )
    writes = config.leader_only_metadata_writes
    if writes == "true" and not config.effective_metadata_store_url.startswith(_READ_AS_OF_NOW):
        raise ConfigError("leaderOnlyMetadataWrites", writes, _NOT_WHERE_READS_ARE_OLD)
    session_ms = config.metadata_store_session_timeout_millis
    if writes == "true" and session_ms > LONGEST_LEASED_SESSION_MS:
        most = f"at most {LONGEST_LEASED_SESSION_MS:,} where leaderOnlyMetadataWrites=true"
        raise ConfigError("metadataStoreSessionTimeoutMillis", str(session_ms), most)


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
    """Yield the lines that say something, each with the number of its first line, continuations joined."""
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
