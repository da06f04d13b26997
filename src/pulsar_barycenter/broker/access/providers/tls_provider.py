"""Authenticates clients by the certificate of their TLS connection."""

from collections.abc import Mapping

from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.received_credentials import Credentials, Identity, is_role
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig


class TlsProvider:
    """Accepts certificates of a trusted authority; the role is the common name (CN).

    The TLS handshake has checked the certificate. Source: Pulsar's `AuthenticationProviderTls`.
    """

    method = "tls"
    invitation = None
    wanted = "connect by TLS with a certificate of an authority that this cluster trusts"

    @classmethod
    def of(cls, config: BrokerConfig) -> "TlsProvider":
        """Return a provider. This checks that, with this configuration, the TLS ports request certificates from
        clients.

        Raises:
            ConfigError: the TLS ports request no certificates; the error names the key that has to change.
        """
        if config.tls_allow_insecure_connection:
            raise ConfigError(
                "tlsAllowInsecureConnection",
                "true",
                "false, so that TLS ports request certificates from clients, because authenticationProviders has tls",
            )
        if not config.tls_trust_certs_file_path:
            raise ConfigError(
                "tlsTrustCertsFilePath",
                "",
                "a PEM file of the trusted authorities, because authenticationProviders has tls",
            )
        return cls()

    def credentials_of(self, headers: Mapping[str, str], certificate_name: str | None) -> Credentials | None:
        return None if certificate_name is None else Credentials(self.method, certificate_name=certificate_name)

    async def identify(self, credentials: Credentials, now_s: float) -> Identity:
        if credentials.certificate_name is None:
            raise AuthenticationError(
                "the client sent no certificate with a common name, or does not use TLS: " + self.wanted,
                "INVALID_CERTS",
            )
        if not is_role(credentials.certificate_name):
            raise AuthenticationError("the common name of the certificate is not a valid role name", "INVALID_CN")
        return Identity(credentials.certificate_name)

    async def close(self) -> None:
        """Do nothing: this provider has no background work."""
