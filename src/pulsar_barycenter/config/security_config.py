"""The keys of broker.conf for authentication and TLS, of clients and between brokers."""

from typing import Annotated, Literal

from pulsar_barycenter.config.key import (
    Count,
    IntervalMillis,
    IntervalSeconds,
    Issuers,
    Names,
    Seconds,
    about,
    key_name,
)
from pulsar_barycenter.config.serving_config import ServingConfig


class SecurityConfig(ServingConfig, frozen=True, kw_only=True, rename=key_name):
    """The keys of broker.conf about authentication and TLS. `BrokerConfig` inherits them."""

    # ---- Authentication ----
    authentication_enabled: Annotated[bool, about("Authenticate clients, at both ports. See security.md.")] = False
    authentication_providers: Annotated[
        Names,
        about("Accepted authentication methods: Pulsar's class names, or `token`, `tls`, `basic`, `openid`."),
    ] = ()
    anonymous_user_role: Annotated[str, about("Role of clients without credentials. Blank: they are refused.")] = ""
    proxy_roles: Annotated[
        Names, about("Roles of proxies, which must name the client for which they send a request.")
    ] = ()
    authenticate_original_auth_data: Annotated[
        bool, about("Require the credentials of a proxy's client, not only its name.")
    ] = False
    authentication_refresh_check_seconds: Annotated[
        IntervalSeconds, about("How often to look for connections with expired credentials, and request new ones.")
    ] = 60.0
    authenticate_metrics_endpoint: Annotated[bool, about("Authenticate readers of `/metrics` too.")] = False
    token_secret_key: Annotated[
        str,
        about("Key of tokens signed by HS256, HS384, HS512: `file:///path`, `data:;base64,…`, a path.", secret=True),
    ] = ""
    token_public_key: Annotated[
        str,
        about("Public key of tokens signed with a private key; DER or PEM, given as above. Not with tokenSecretKey."),
    ] = ""
    token_public_alg: Annotated[
        Literal["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"],
        about("Algorithm of the public key; an RSA key accepts all three RS algorithms."),
    ] = "RS256"  # noqa: S105  # no secret
    token_auth_claim: Annotated[str, about("Claim of a token that contains the role.")] = "sub"  # noqa: S105  # no secret
    token_audience_claim: Annotated[str, about("Claim that contains a token's audience; with `tokenAudience`.")] = ""
    token_audience: Annotated[str, about("Audience that a token must have; blank: any. With `tokenAudienceClaim`.")] = (
        ""
    )
    token_allowed_clock_skew_seconds: Annotated[
        Seconds, about("How long after its expiry, or before its start, a token is still accepted.")
    ] = 0.0
    basic_auth_conf: Annotated[
        str, about("File of users and passwords in htpasswd format: `file:///path`, Base64, a path.", secret=True)
    ] = ""
    # ---- OpenID Connect ----
    openid_allowed_token_issuers: Annotated[
        Issuers, about("Issuers whose access tokens are accepted, exactly as in their claim `iss`.")
    ] = ()
    openid_allowed_audiences: Annotated[
        Issuers, about("Audiences of this cluster: the claim `aud` of a token must contain one of them.")
    ] = ()
    openid_role_claim: Annotated[str, about("Claim of an access token that contains the role.")] = "sub"
    openid_accepted_time_leeway_seconds: Annotated[
        Seconds, about("How much the clocks of issuers and of this broker may differ.")
    ] = 0.0
    openid_token_issuer_trust_certs_file_path: Annotated[
        str, about("PEM file of the certificate authorities of issuers. Blank: the system's.")
    ] = ""
    openid_require_issuers_use_https: Annotated[bool, about("Refuse issuers and key addresses without https.")] = True
    openid_cache_size: Annotated[
        Count, about("No effect: the keys of every allowed issuer are kept, and of no other.")
    ] = 5
    openid_cache_refresh_after_write_seconds: Annotated[
        Seconds, about("Age from which an issuer's keys are fetched again, while the old ones are still used.")
    ] = 64_800.0
    openid_cache_expiration_seconds: Annotated[
        IntervalSeconds, about("Age from which an issuer's keys are not used any more, unless fetched again.")
    ] = 86_400.0
    openid_key_id_cache_miss_refresh_seconds: Annotated[
        Seconds, about("Shortest time between two fetches of an issuer's keys because of a token with an unknown key.")
    ] = 300.0
    openid_http_connection_timeout_millis: Annotated[
        IntervalMillis, about("How long a connection to an issuer may take.")
    ] = 10_000
    openid_http_read_timeout_millis: Annotated[IntervalMillis, about("How long an issuer's answer may take.")] = 10_000
    openid_fallback_discovery_mode: Annotated[
        str, about("Whether keys of other issuers are requested from a Kubernetes API server.", offered=False)
    ] = "DISABLED"
    # ---- TLS ----
    tls_certificate_file_path: Annotated[str, about("PEM file of the broker's certificate chain.", own=True)] = ""
    tls_key_file_path: Annotated[str, about("PEM file of the certificate's key, without a password.", own=True)] = ""
    tls_trust_certs_file_path: Annotated[
        str, about("PEM file of the authorities of client certificates. Blank: clients are not asked for one.")
    ] = ""
    tls_allow_insecure_connection: Annotated[
        bool, about("Do not request client certificates, and accept any certificate of another broker.")
    ] = False
    tls_require_trusted_client_cert_on_connect: Annotated[
        bool, about("Refuse clients without a certificate of these authorities.")
    ] = False
    tls_hostname_verification_enabled: Annotated[
        bool, about("Check the host name in certificates of other brokers and of bookies. Pulsar's default is false.")
    ] = True
    tls_protocols: Annotated[
        Names, about("Versions of TLS: TLSv1.2, TLSv1.3. Blank: both. Weaker ones are refused.")
    ] = ()
    tls_ciphers: Annotated[
        Names,
        about(
            "Ciphers of TLS 1.2, by OpenSSL's or Java's names; those of TLS 1.3 are always on. Blank: OpenSSL's choice."
        ),
    ] = ()
    tls_cert_refresh_check_duration_sec: Annotated[
        Seconds, about("Shortest time between two checks whether the files were renewed; 0: at each connection.")
    ] = 300.0
    broker_client_tls_enabled: Annotated[bool, about("Connect to other brokers by TLS if they offer both.")] = False
    broker_client_trust_certs_file_path: Annotated[
        str, about("PEM file of the certificate authorities of other brokers. Blank: the system's.")
    ] = ""
    broker_client_authentication_plugin: Annotated[
        str,
        about("How brokers authenticate to one another: Pulsar's class name, or `token`, `tls`, `basic`, `oauth2`."),
    ] = ""
    broker_client_authentication_parameters: Annotated[
        str,
        about(
            "Their credentials, which must be a superuser's: `token:TEXT`, `file:///path`; others as in Pulsar.",
            secret=True,
        ),
    ] = ""
