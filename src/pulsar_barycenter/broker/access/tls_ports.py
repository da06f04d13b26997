"""TLS of this broker: what its own ports show, and how it trusts the other brokers."""

from collections.abc import Callable
from dataclasses import dataclass

from pulsar_barycenter.broker.access.own_proof import own_proof
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.tls import ClientTls, ListeningContext, ServerTls, renewing_server_context


@dataclass(frozen=True, slots=True)
class TlsPort:
    """A port to listen at with TLS; 0 picks a free one."""

    port: int
    context: ListeningContext


def tls_context(config: BrokerConfig, now_s: Callable[[], float]) -> ListeningContext | None:
    """Return what the TLS ports go by, None if there are none; renewed files are taken up by new connections.

    Raises:
        ConfigError: there is no port of a kind.
        KeyMaterialError: a file of TLS cannot be used, or a word is not known.
    """
    for key, ports in (
        ("brokerServicePort", (config.broker_service_port, config.broker_service_port_tls)),
        ("webServicePort", (config.web_service_port, config.web_service_port_tls)),
    ):
        if ports == (None, None):
            raise ConfigError(key, "", f"a port, or else {key}Tls: nobody could reach this broker")
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
    """Return how this broker trusts the others, and what it shows to them.

    Raises:
        ConfigError, KeyMaterialError: it has nothing to show, or a file cannot be used where TLS is asked for.
    """
    tls = ClientTls(
        config.broker_client_trust_certs_file_path,
        own_proof(config),
        verifies=not config.tls_allow_insecure_connection,
        verifies_host_name=config.tls_hostname_verification_enabled,
    )
    if config.broker_client_tls_enabled:
        tls.context()  # what is wrong is told at the start, and not where a leader cannot reach anybody
    return tls
