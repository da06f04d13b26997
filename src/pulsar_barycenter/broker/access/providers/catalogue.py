"""Finds the providers that `authenticationProviders` names.

A name is that of a class of Pulsar, or its short form. Two providers have the method `token` in the binary protocol and
`Bearer` in HTTP; if both are named, one provider combines them. The module of a provider is imported only if it is
named: those for tokens take some 9 MiB of memory.
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
    """Where the class of a provider is: `module` is the name of a module of this package, `implementation` the name of
    the class in it. The class method `of` of that class creates a provider from a configuration.
    """

    module: str
    implementation: str

    def of(self, config: BrokerConfig) -> Provider:
        """Import the class that this row names, create a provider from `config`, and return the provider.

        Raises:
            ConfigError: values in broker.conf exclude each other.
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
"""The providers by short name. `AuthenticationProvider` followed by the short name is the name of Pulsar's class."""

_OF_TOKENS: Final = ("token", "openid")
_BEARER: Final = ProviderRow("bearer_provider", "BearerProvider")
"""The provider if both kinds of tokens are configured."""


def providers_of(config: BrokerConfig) -> Mapping[str, Provider]:
    """Return the providers that a configuration names, in the configured order. The keys of the result are the names of
    the providers' methods in the binary protocol.

    Raises:
        ConfigError: a name is unknown, or values in broker.conf exclude each other.
        KeyMaterialError: a key or file of a provider cannot be used.
    """
    rows = {name: PROVIDERS[name] for name in map(short_name_of, config.authentication_providers)}
    if rows.keys() >= set(_OF_TOKENS):
        rows |= dict.fromkeys(_OF_TOKENS, _BEARER)
    made = [row.of(config) for row in dict.fromkeys(rows.values())]
    return {provider.method: provider for provider in made}


def short_name_of(name: str) -> str:
    """Return the key in PROVIDERS for `name`, an entry of the configuration key `authenticationProviders`.

    Raises:
        ConfigError: there is no provider of that name.
    """
    method = name.rpartition(".")[2].lower().removeprefix("authenticationprovider")
    if method not in PROVIDERS:
        raise ConfigError("authenticationProviders", name, f"one or several of {', '.join(PROVIDERS)}")
    return method
