"""The credentials that this broker sends to other brokers, and to itself in its own HTTP requests."""

from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.client_authentication import ClientAuthentication, parse_authentication


def broker_credentials(config: BrokerConfig) -> ClientAuthentication:
    """Return this broker's own credentials, with which it connects to other brokers: those of
    `brokerClientAuthenticationPlugin` and `brokerClientAuthenticationParameters`. Their role must be a super user.

    Raises:
        ConfigError: authentication is on, and this broker has no credentials.
        KeyMaterialError: the plugin is unknown, or the parameters do not have the form that it requires.
    """
    plugin = config.broker_client_authentication_plugin
    if config.authentication_enabled and not plugin:
        raise ConfigError(
            "brokerClientAuthenticationPlugin",
            "",
            "set, together with brokerClientAuthenticationParameters, because authenticationEnabled=true: "
            "brokers authenticate to each other. For example token and file:///path/to/a/superuser's/token",
        )
    return parse_authentication(plugin, config.broker_client_authentication_parameters)
