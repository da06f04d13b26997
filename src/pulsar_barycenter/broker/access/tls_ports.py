"""The TLS configuration of this broker: for its own ports, and for its connections to other brokers."""

from collections.abc import Callable
from dataclasses import dataclass

from pulsar_barycenter.broker.access.broker_credentials import broker_credentials
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.tls import ClientTls, ListeningContext, ServerTls, renewing_server_context


@dataclass(frozen=True, slots=True)
class TlsPort:
    """A port with TLS; 0 picks a free one."""

    port: int
    context: ListeningContext


def tls_context(config: BrokerConfig, now_s: Callable[[], float]) -> ListeningContext | None:
    """Return the TLS context of this broker's ports, None if no port uses TLS.

    If a certificate file is renewed while the broker runs, later connections use the new file. `now_s` is a clock in
    seconds.

    Raises:
        ConfigError: the broker has no port for the binary protocol, or none for HTTP.
        KeyMaterialError: a TLS file cannot be used, or a protocol or cipher is unknown.
    """
    for key, ports in (
        ("brokerServicePort", (config.broker_service_port, config.broker_service_port_tls)),
        ("webServicePort", (config.web_service_port, config.web_service_port_tls)),
    ):
        if ports == (None, None):
            raise ConfigError(
                key, "", f"a port, unless {key}Tls is set: without both no client could reach this broker"
            )
    if config.broker_service_port_tls is None and config.web_service_port_tls is None:
        return None
    tls = ServerTls(
        config.tls_certificate_file_path,
        config.tls_key_file_path,
        trust_file="" if config.tls_allow_insecure_connection else config.tls_trust_certs_file_path,
        requires_certificate=config.tls_require_trusted_client_cert_on_connect,
        protocols=config.tls_protocols,
        ciphers=config.tls_ciphers,
    )
    return renewing_server_context(tls, check_s=config.tls_cert_refresh_check_duration_sec, now_s=now_s)


def own_tls(config: BrokerConfig) -> ClientTls:
    """Return the TLS settings for connections to other brokers: the authorities to trust, and the credentials to send.

    Raises:
        ConfigError, KeyMaterialError: this broker has no credentials, or with brokerClientTlsEnabled a file cannot be
            used.
    """
    tls = ClientTls(
        config.broker_client_trust_certs_file_path,
        broker_credentials(config),
        verifies=not config.tls_allow_insecure_connection,
        verifies_host_name=config.tls_hostname_verification_enabled,
    )
    if config.broker_client_tls_enabled:
        tls.context()  # an error must show at the start, not when a leader cannot reach other brokers
    return tls
