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
        """Return a provider, if the TLS ports ask clients for a certificate.

        Raises:
            ConfigError: they do not.
        """
        if not config.tls_trust_certs_file_path or config.tls_allow_insecure_connection:
            raise ConfigError(
                "tlsTrustCertsFilePath",
                config.tls_trust_certs_file_path,
                "given, and tlsAllowInsecureConnection=false, to authenticate clients by certificates",
            )
        return cls()

    def credentials_of(self, headers: Mapping[str, str], certificate_name: str | None) -> Credentials | None:
        return None if certificate_name is None else Credentials(self.method, certificate_name=certificate_name)

    async def identify(self, credentials: Credentials, now_s: float) -> Identity:
        if credentials.certificate_name is None:
            raise AuthenticationError(
                "there is no certificate with a common name, or no TLS; " + self.wanted, "INVALID_CERTS"
            )
        if not is_role(credentials.certificate_name):
            raise AuthenticationError("the common name of the certificate is not a valid role name", "INVALID_CN")
        return Identity(credentials.certificate_name)

    async def close(self) -> None:
        """Do nothing: this provider has no background work."""
