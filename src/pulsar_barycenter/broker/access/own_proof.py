"""What this broker shows to others, and to itself where it asks over HTTP: that it is a broker of this cluster."""

from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.client_authentication import ClientAuthentication, parse_authentication


def own_proof(config: BrokerConfig) -> ClientAuthentication:
    """Return what `brokerClientAuthenticationPlugin` and its parameters say; the role must be a superuser's.

    Raises:
        ConfigError: clients are asked who they are, and this broker would have nothing to show.
        KeyMaterialError: the plugin is not known, or its parameters are not of its form.
    """
    plugin = config.broker_client_authentication_plugin
    if config.authentication_enabled and not plugin:
        raise ConfigError(
            "brokerClientAuthenticationPlugin",
            "",
            "given where authenticationEnabled=true, with brokerClientAuthenticationParameters, as brokers ask one "
            "another, too: for example token and file:///path/to/a/superuser's/token",
        )
    return parse_authentication(plugin, config.broker_client_authentication_parameters)
