"""Which ways to prove who one is a configuration asks for.

Names are those of Pulsar's classes, which `authenticationProviders` lists, or in short. Two have the method `token` of
the binary protocol, and `Bearer` of HTTP; named together they are one. A provider's modules are loaded when it is asked
for, as those of tokens take some 9 MiB.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.broker.access.providers.provider import Provider
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """A module of this chapter, and its class, which makes itself of a configuration by `of`."""

    module: str
    implementation: str

    def of(self, config: BrokerConfig) -> Provider:
        """Load the class and make one.

        Raises:
            ConfigError: keys of broker.conf do not go together.
            KeyMaterialError: a key or file cannot be used.
        """
        module = importlib.import_module(f"{__package__}.{self.module}")
        made: Provider = getattr(module, self.implementation).of(config)
        return made


PROVIDERS: Final[Mapping[str, ProviderRow]] = {
    "token": ProviderRow("token_provider", "TokenProvider"),
    "tls": ProviderRow("tls_provider", "TlsProvider"),
    "basic": ProviderRow("basic_provider", "BasicProvider"),
    "openid": ProviderRow("openid_provider", "OpenIDProvider"),
}
"""By short name; `AuthenticationProvider` and that is the name of Pulsar's class."""

_OF_TOKENS: Final = ("token", "openid")
_BEARER: Final = ProviderRow("bearer_provider", "BearerProvider")
"""For both of them."""


def providers_of(config: BrokerConfig) -> Mapping[str, Provider]:
    """Return the providers that a configuration names by the methods of the binary protocol, in its order.

    Raises:
        ConfigError: there is none of a name, or its keys do not go together.
        KeyMaterialError: a key or file of a provider cannot be used.
    """
    rows = {name: PROVIDERS[name] for name in map(short_name_of, config.authentication_providers)}
    if rows.keys() >= set(_OF_TOKENS):
        rows |= dict.fromkeys(_OF_TOKENS, _BEARER)
    made = [row.of(config) for row in dict.fromkeys(rows.values())]
    return {provider.method: provider for provider in made}


def short_name_of(name: str) -> str:
    """Return which of PROVIDERS an entry of `authenticationProviders` means.

    Raises:
        ConfigError: there is none of that name.
    """
    method = name.rpartition(".")[2].lower().removeprefix("authenticationprovider")
    if method not in PROVIDERS:
        raise ConfigError("authenticationProviders", name, f"one or several of {', '.join(PROVIDERS)}")
    return method
