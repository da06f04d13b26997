"""How the configuration protects the connections to bookies: by TLS, and by an authentication plug-in.

A package offers such a plug-in by an entry point in the group `pulsar_barycenter.bookie_authentication`. Its object is
called with the value of bookkeeperClientAuthenticationParameters, and returns a plug-in, which is a
`bookkeeper.client.opening.AuthenticationPlugin`.

Source: Pulsar's `BookKeeperClientFactoryImpl`, which starts TLS if bookkeeperTLSClientAuthentication=true.
"""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Final

from pulsar_barycenter.bookkeeper.client.opening import Authenticate, OpeningStep, StartTls
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.client_authentication import ClientAuthentication
from pulsar_barycenter.credentials.tls import ClientTls, Renewed

GROUP: Final = "pulsar_barycenter.bookie_authentication"


def steps_of(config: BrokerConfig, now_s: Callable[[], float]) -> tuple[OpeningStep, ...]:
    """Return what a broker does on each new connection to a bookie before its first request. `now_s` returns the
    seconds of a monotonic clock; it decides when TLS files are checked for renewal.

    Raises:
        KeyMaterialError: a TLS file is missing, cannot be read, or has the wrong content.
        ConfigError: no installed package has the authentication plug-in, or it does not accept its parameters.
    """
    return (*_tls(config, now_s), *_authentication(config))


def _tls(config: BrokerConfig, now_s: Callable[[], float]) -> tuple[OpeningStep, ...]:
    if not config.bookkeeper_tls_client_authentication:
        return ()
    tls = ClientTls(
        config.bookkeeper_tls_trust_certs_file_path,
        ClientAuthentication(
            "tls",
            certificate_file=config.bookkeeper_tls_certificate_file_path,
            key_file=config.bookkeeper_tls_key_file_path,
            setting="bookkeeperTLSCertificateFilePath, bookkeeperTLSKeyFilePath",
        ),
        verifies_host_name=config.tls_hostname_verification_enabled,
        trust_setting="bookkeeperTLSTrustCertsFilePath",
    )
    check_s = config.bookkeeper_tls_cert_files_refresh_duration_seconds
    return (StartTls(Renewed(tls, check_s=check_s, now_s=now_s).context),)


def _authentication(config: BrokerConfig) -> tuple[OpeningStep, ...]:
    name = config.bookkeeper_client_authentication_plugin
    if not name:
        return ()
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        known = ", ".join(sorted(found)) or "none is installed"
        raise ConfigError(
            "bookkeeperClientAuthenticationPlugin",
            name,
            f"blank, or the name of a plug-in of an installed Python package ({known}); classes of Java cannot be"
            " loaded. To identify brokers by their certificates instead, leave this key blank and set"
            " bookkeeperTLSClientAuthentication=true",
        )
    try:
        return (Authenticate(found[name].load()(config.bookkeeper_client_authentication_parameters)),)
    except Exception as error:  # whatever the module of another package raises
        raise ConfigError(
            "bookkeeperClientAuthenticationPlugin",
            name,
            "the name of a plug-in that can be loaded and accepts bookkeeperClientAuthenticationParameters; the"
            f" named plug-in raised {type(error).__name__}: {error}",
        ) from error
