"""The keys of broker.conf about who may ask: authentication, and what brokers show one another."""

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
    """See `BrokerConfig`, which has these keys."""

    # ---- Authentication ----
    authentication_enabled: Annotated[bool, about("Ask clients who they are, at both ports. See security.md.")] = False
    authentication_providers: Annotated[
        Names,
        about("By what clients may say who they are: Pulsar's class names, or `token`, `tls`, `basic`, `openid`."),
    ] = ()
    anonymous_user_role: Annotated[str, about("Role of clients that show nothing. Blank: they are refused.")] = ""
    proxy_roles: Annotated[Names, about("Roles that speak for others, and have to say for whom.")] = ()
    authenticate_original_auth_data: Annotated[
        bool, about("Ask proxies for the proof of the client they speak for, not only for its name.")
    ] = False
    authentication_refresh_check_seconds: Annotated[
        IntervalSeconds, about("How often to look for connections whose proof has expired, and ask them for a new one.")
    ] = 60.0
    authenticate_metrics_endpoint: Annotated[bool, about("Ask who reads `/metrics`, too.")] = False
    token_secret_key: Annotated[
        str,
        about("Key of tokens signed by HS256, HS384, HS512: `file:///path`, `data:;base64,…`, a path.", secret=True),
    ] = ""
    token_public_key: Annotated[
        str, about("Public key of tokens signed with the private one; DER or PEM, given as above. Not with the former.")
    ] = ""
    token_public_alg: Annotated[
        Literal["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"],
        about("What the public key is for; a key of RSA accepts its three."),
    ] = "RS256"  # noqa: S105  # no secret
    token_auth_claim: Annotated[str, about("Claim of a token that is the role.")] = "sub"  # noqa: S105  # no secret
    token_audience_claim: Annotated[str, about("Claim that says whom a token is for; with `tokenAudience`.")] = ""
    token_audience: Annotated[str, about("What a token must be for; blank is any. With `tokenAudienceClaim`.")] = ""
    token_allowed_clock_skew_seconds: Annotated[
        Seconds, about("How long after its end, or before its begin, a token is still believed.")
    ] = 0.0
    basic_auth_conf: Annotated[
        str, about("File of users and passwords that htpasswd wrote: `file:///path`, Base64, a path.", secret=True)
    ] = ""
    # ---- OpenID Connect ----
    openid_allowed_token_issuers: Annotated[
        Issuers, about("Issuers whose access tokens are believed, letter by letter as their claim `iss` has them.")
    ] = ()
    openid_allowed_audiences: Annotated[
        Issuers, about("Audiences of this cluster: the claim `aud` of a token must name one of them.")
    ] = ()
    openid_role_claim: Annotated[str, about("Claim of an access token that is the role.")] = "sub"
    openid_accepted_time_leeway_seconds: Annotated[
        Seconds, about("By how much the clocks of issuers and of this broker may differ.")
    ] = 0.0
    openid_token_issuer_trust_certs_file_path: Annotated[
        str, about("PEM file of the authorities of issuers' certificates. Blank: the system's.")
    ] = ""
    openid_require_issuers_use_https: Annotated[
        bool, about("Refuse issuers, and addresses of keys, that are not of https.")
    ] = True
    openid_cache_size: Annotated[
        Count, about("No effect: the keys of every allowed issuer are kept, and of no other.")
    ] = 5
    openid_cache_refresh_after_write_seconds: Annotated[
        Seconds, about("How old an issuer's keys are when they are fetched anew, beside those that are used.")
    ] = 64_800.0
    openid_cache_expiration_seconds: Annotated[
        IntervalSeconds, about("How old an issuer's keys are when they are used no more, unless fetched anew.")
    ] = 86_400.0
    openid_key_id_cache_miss_refresh_seconds: Annotated[
        Seconds, about("How often, at most, an issuer's keys are fetched for a token whose key is not among them.")
    ] = 300.0
    openid_http_connection_timeout_millis: Annotated[
        IntervalMillis, about("How long a connection to an issuer may take.")
    ] = 10_000
    openid_http_read_timeout_millis: Annotated[IntervalMillis, about("How long an issuer's answer may take.")] = 10_000
    openid_fallback_discovery_mode: Annotated[
        str, about("Whether a Kubernetes API server is asked for keys of other issuers.", offered=False)
    ] = "DISABLED"
    # ---- TLS ----
    tls_certificate_file_path: Annotated[
        str, about("PEM file of the broker's certificate, and of those above it.", own=True)
    ] = ""
    tls_key_file_path: Annotated[str, about("PEM file of its key, without a password.", own=True)] = ""
    tls_trust_certs_file_path: Annotated[
        str, about("PEM file of the authorities whose certificates clients may show. Blank: they are asked for none.")
    ] = ""
    tls_allow_insecure_connection: Annotated[
        bool, about("Ask clients for no certificate, and believe any that another broker shows.")
    ] = False
    tls_require_trusted_client_cert_on_connect: Annotated[
        bool, about("Refuse clients without a certificate of these authorities.")
    ] = False
    tls_hostname_verification_enabled: Annotated[
        bool, about("Ask other brokers for a certificate of their host's name. Pulsar's default is false.")
    ] = True
    tls_protocols: Annotated[
        Names, about("Versions of TLS: TLSv1.2, TLSv1.3. Blank: both. Weaker ones are refused.")
    ] = ()
    tls_ciphers: Annotated[
        Names,
        about("Ciphers of TLS 1.2, by OpenSSL's names or Java's; TLS 1.3 has all its own. Blank: OpenSSL's choice."),
    ] = ()
    tls_cert_refresh_check_duration_sec: Annotated[
        Seconds, about("How often, at most, a new connection looks whether the files were renewed; 0 is each.")
    ] = 300.0
    broker_client_tls_enabled: Annotated[bool, about("Reach other brokers by TLS where they offer both.")] = False
    broker_client_trust_certs_file_path: Annotated[
        str, about("PEM file of the authorities of other brokers' certificates. Blank: the system's.")
    ] = ""
    broker_client_authentication_plugin: Annotated[
        str,
        about(
            "How brokers say who they are to one another: Pulsar's class name, or `token`, `tls`, `basic`, `oauth2`."
        ),
    ] = ""
    broker_client_authentication_parameters: Annotated[
        str,
        about(
            "What they show, which must be a superuser's: `token:TEXT`, `file:///path`; others as Pulsar has them.",
            secret=True,
        ),
    ] = ""
