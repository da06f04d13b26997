"""The keys of broker.conf about who may ask: authentication, and what brokers show one another."""

from typing import Annotated, Literal

from barycenter.config.key import IntervalSeconds, Names, Seconds, about, key_name
from barycenter.config.serving_config import ServingConfig


class SecurityConfig(ServingConfig, frozen=True, kw_only=True, rename=key_name):
    """See `BrokerConfig`, which has these keys."""

    # ---- Authentication ----
    authentication_enabled: Annotated[bool, about("Ask clients who they are, at both ports. See security.md.")] = False
    authentication_providers: Annotated[
        Names, about("By what clients may say who they are: Pulsar's class names, or `token`, `tls`, `basic`.")
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
    # ---- TLS ----
    tls_certificate_file_path: Annotated[str, about("PEM file of the broker's certificate, and of those above it.")] = (
        ""
    )
    tls_key_file_path: Annotated[str, about("PEM file of its key, without a password.")] = ""
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
        str, about("How brokers say who they are to one another: Pulsar's class name, or `token`, `tls`, `basic`.")
    ] = ""
    broker_client_authentication_parameters: Annotated[
        str,
        about(
            "What they show, which must be a superuser's: `token:TEXT`, `file:///path`; others as Pulsar has them.",
            secret=True,
        ),
    ] = ""
