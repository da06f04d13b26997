"""The certificate by which a connection was let in."""

from collections.abc import Mapping

from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.shown import Identity, Shown, is_role
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig


class TlsProvider:
    """Certificates of a trusted authority; the role is the CN. Source: Pulsar's `AuthenticationProviderTls`."""

    method = "tls"
    invitation = None
    wanted = "connect by TLS with a certificate of an authority that this cluster trusts"

    @classmethod
    def of(cls, config: BrokerConfig) -> "TlsProvider":
        """Check that clients are asked for a certificate at all.

        Raises:
            ConfigError: they are not.
        """
        if not config.tls_trust_certs_file_path or config.tls_allow_insecure_connection:
            raise ConfigError(
                "tlsTrustCertsFilePath",
                config.tls_trust_certs_file_path,
                "given, and tlsAllowInsecureConnection=false, for clients to be known by certificates",
            )
        return cls()

    def shown_by(self, headers: Mapping[str, str], certificate_name: str | None) -> Shown | None:
        return None if certificate_name is None else Shown(self.method, certificate_name=certificate_name)

    async def identify(self, shown: Shown, now_s: float) -> Identity:
        if shown.certificate_name is None:
            raise AuthenticationError(
                "there is no certificate with a common name, or no TLS; " + self.wanted, "INVALID_CERTS"
            )
        if not is_role(shown.certificate_name):
            raise AuthenticationError("the common name of the certificate is no name of a role", "INVALID_CN")
        return Identity(shown.certificate_name)

    async def close(self) -> None:
        """Nothing goes on by itself."""
