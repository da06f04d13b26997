"""Access tokens of OpenID Connect: parses what an issuer publishes, and verifies tokens with it. Bytes and times are
arguments.

A token is accepted if all of this holds: an allowed issuer's own key signed it, with an algorithm of that key; the time
is within the token's limits; the token is for an allowed audience and has a role. The token's header only selects among
the keys of its issuer. Addresses in it (`jku`, `x5u`) are not requested, and keys in it are not used.

| claim | requirement |
|---|---|
| `iss` | an allowed issuer, exactly |
| `aud` | an allowed audience, or a list that contains one |
| `exp`, `iat` | required; the time is before `exp`, and not before `iat` |
| `nbf` | optional; not later than the time |
| `sub`, and the claim of the role | required |

Source: Pulsar's `AuthenticationProviderOpenID`, OpenID Connect Discovery 1.0, RFC 7517 and 7518. Two differences:
PS256, PS384 and PS512 are accepted too, and sizes are limited.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

from pulsar_barycenter.credentials.bounds import MAX_TOKEN
from pulsar_barycenter.credentials.errors import IssuerError
from pulsar_barycenter.credentials.issuers import MAX_DOCUMENT_BYTES, MAX_URL, discovery_url
from pulsar_barycenter.credentials.token_keys import VerifyingKey
from pulsar_barycenter.credentials.tokens import (
    Refused,
    TokenResult,
    VerifiedToken,
    is_moment,
    outside_time,
    role_of,
    signed_claims,
    unverified,
)

MAX_KEYS: Final = 100
"""The maximum number of keys that an issuer may publish."""
MAX_KEY_ID: Final = 500
"""The maximum number of characters of a key's id."""

RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
EC_ALGORITHMS: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
"""For each elliptic curve in a JSON Web Key: the algorithm of its signatures."""
ALGORITHMS: Final = frozenset(RSA_ALGORITHMS) | frozenset(EC_ALGORITHMS.values())

_MIN_RSA_BITS: Final = 2_048
_MAX_RSA_BITS: Final = 8_192
_MAX_EXPONENT: Final = 1 << 32
_MAX_NUMBER: Final = 1_400
"""The maximum number of characters of a number in a JSON Web Key: 8,192 bits in Base64."""


@dataclass(frozen=True, slots=True)
class OpenIDRules:
    """The requirements for an OpenID token. `leeway_s`: how many seconds the clocks of issuer and broker may differ."""

    issuers: frozenset[str]
    audiences: frozenset[str]
    role_claim: str = "sub"
    leeway_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a token says about itself before it is verified: its issuer (an allowed one), and the key and algorithm of
    its signature.
    """

    issuer: str
    key_id: str
    algorithm: str


@dataclass(frozen=True, slots=True)
class IssuerKeys:
    """The keys of one issuer. Each is found by its key id and algorithm."""

    _keys: Mapping[tuple[str, str], VerifyingKey] = field(repr=False)

    def has(self, key_id: str) -> bool:
        return any((key_id, algorithm) in self._keys for algorithm in ALGORITHMS)

    def find(self, claimed: Claimed) -> VerifyingKey | None:
        return self._keys.get((claimed.key_id, claimed.algorithm))


def keys_url(document: bytes, issuer: str) -> str:
    """Return the address of an issuer's keys. `document` is the metadata that the issuer publishes.

    Raises:
        IssuerError: the document is not metadata, or names another issuer.
    """
    metadata = _decoded(document, discovery_url(issuer))
    if metadata.get("issuer") != issuer:
        raise IssuerError(
            discovery_url(issuer),
            "is a document whose field issuer differs from the allowed issuer in broker.conf: write the issuer in "
            "broker.conf exactly as in this field",
        )
    url = metadata.get("jwks_uri")
    if not isinstance(url, str) or not 0 < len(url) <= MAX_URL:
        raise IssuerError(discovery_url(issuer), "has no jwks_uri")
    return url


def issuer_keys(document: bytes, url: str) -> IssuerKeys:
    """Return the keys in `document`, a JSON Web Key Set, with which tokens can be verified. Others, such as encryption
    keys, are ignored.

    Raises:
        IssuerError: the document is not a key set, or has more than MAX_KEYS keys; `url` is its address.
    """
    listed = _decoded(document, url).get("keys")
    if not isinstance(listed, list):
        raise IssuerError(url, "is not a JSON Web Key Set")
    if len(listed) > MAX_KEYS:
        raise IssuerError(url, f"has more than {MAX_KEYS} keys")
    found: dict[tuple[str, str], VerifyingKey] = {}
    for jwk in listed:
        key_id = jwk.get("kid") if isinstance(jwk, dict) else None
        key = _key(jwk) if _is_key_id(key_id) else None
        for algorithm in () if key is None else key.algorithms:
            found.setdefault((str(key_id), algorithm), key)  # type: ignore[arg-type]
    return IssuerKeys(found)


def names_allowed_issuer(token: str, rules: OpenIDRules) -> bool:
    """Return whether the token says that an allowed issuer made it. Its signature is not verified here."""
    stated = _unverified_parts(token)
    issuer = None if isinstance(stated, Refused) else stated[1].get("iss")
    return isinstance(issuer, str) and issuer in rules.issuers


def claimed(token: str, rules: OpenIDRules) -> Claimed | Refused:
    """Return the issuer, key and algorithm that a token states; Refused if they are not allowed. Its signature is not
    verified here.
    """
    stated = _unverified_parts(token)
    if isinstance(stated, Refused):
        return stated
    header, claims = stated
    algorithm, key_id, issuer = header.get("alg"), header.get("kid"), claims.get("iss")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        return Refused("the token is not signed with a public key's algorithm: RS, PS or ES with 256, 384 or 512")
    if not isinstance(issuer, str) or issuer not in rules.issuers:
        return Refused("the token's issuer is not one that this cluster allows")
    if not isinstance(key_id, str) or not _is_key_id(key_id):
        return Refused("the token does not state which key of its issuer signed it")
    return Claimed(issuer, key_id, algorithm)


def check_openid_token(token: str, stated: Claimed, keys: IssuerKeys, rules: OpenIDRules, now_s: float) -> TokenResult:
    """Verify a token with `keys`, those of the issuer that the token states. Return the token's role, or why it is
    refused. `now_s` is in seconds since 1970.
    """
    key = keys.find(stated)
    if key is None:
        is_known = keys.has(stated.key_id)
        return Refused(
            "the token names a key, but is not signed with an algorithm of that key"
            if is_known
            else "the token names a key, but its issuer has no key with that id"
        )
    claims = signed_claims(token, VerifyingKey(key.key, (stated.algorithm,)))
    if isinstance(claims, Refused):
        return claims
    refused = _incomplete(claims, stated, rules) or _outside(claims, rules, now_s)
    if refused is not None:
        return refused
    role = role_of(claims[rules.role_claim])
    if role is None:
        return Refused(f"the token has no role in its claim {rules.role_claim}")
    return VerifiedToken(role, claims["exp"] + rules.leeway_s, claims)


def _unverified_parts(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]] | Refused:
    if not token:
        return Refused("there is no token")
    if len(token) > MAX_TOKEN or not token.isascii():
        return Refused(f"this is not a token: it has more than {MAX_TOKEN} characters, or non-ASCII ones")
    return unverified(token)


def _incomplete(claims: Mapping[str, Any], stated: Claimed, rules: OpenIDRules) -> Refused | None:
    if claims.get("iss") != stated.issuer:
        return Refused("the token's issuer is not one that this cluster allows")
    for name in ("exp", "iat", "sub", rules.role_claim):
        if claims.get(name) is None:
            return Refused(f"the token lacks the claim {name}")
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(name, str) and name in rules.audiences for name in named):
        return Refused("the token is not for this cluster: its claim aud has none of the allowed audiences")
    return None


def _outside(claims: Mapping[str, Any], rules: OpenIDRules, now_s: float) -> Refused | None:
    if not is_moment(claims["iat"]):
        return Refused("the token's claim iat is not a number of seconds since 1970")
    if now_s < claims["iat"] - rules.leeway_s:
        return Refused("the token's issue time is in the future: the clocks of its issuer and of this broker differ")
    return outside_time(claims, rules.leeway_s, now_s)


def _decoded(document: bytes, url: str) -> dict[str, Any]:
    if len(document) > MAX_DOCUMENT_BYTES:
        raise IssuerError(url, f"is a document of more than {MAX_DOCUMENT_BYTES:,} bytes, which is the maximum")
    try:
        return msgspec.json.decode(document, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise IssuerError(url, "is not a JSON object") from None


def _is_key_id(key_id: object) -> bool:
    return isinstance(key_id, str) and 0 < len(key_id) <= MAX_KEY_ID


def _key(jwk: Mapping[str, Any]) -> VerifyingKey | None:
    """Return the key that a JSON Web Key contains, for verifying signatures.

    Return None if it cannot be used, or if it contains the private part, which should be secret.
    """
    operations = jwk.get("key_ops", ["verify"])
    if "d" in jwk or jwk.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return None
    try:
        key, algorithms = _rsa(jwk) if jwk.get("kty") == "RSA" else _ec(jwk)
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    stated = jwk.get("alg")
    if stated is not None:
        algorithms = tuple(algorithm for algorithm in algorithms if algorithm == stated)
    return VerifyingKey(key, algorithms) if algorithms else None


def _rsa(jwk: Mapping[str, Any]) -> tuple[rsa.RSAPublicKey, tuple[str, ...]]:
    key = RSAAlgorithm.from_jwk({"kty": "RSA", "n": _number(jwk["n"]), "e": _number(jwk["e"])})
    if not isinstance(key, rsa.RSAPublicKey) or not _MIN_RSA_BITS <= key.key_size <= _MAX_RSA_BITS:
        raise ValueError
    if key.public_numbers().e > _MAX_EXPONENT:  # a signature would take long to verify
        raise ValueError
    return key, RSA_ALGORITHMS


def _ec(jwk: Mapping[str, Any]) -> tuple[ec.EllipticCurvePublicKey, tuple[str, ...]]:
    algorithm = EC_ALGORITHMS[jwk["crv"]]
    numbers = {"x": _number(jwk["x"]), "y": _number(jwk["y"])}
    key = ECAlgorithm.from_jwk({"kty": "EC", "crv": jwk["crv"], **numbers})
    if jwk.get("kty") != "EC" or not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError
    return key, (algorithm,)


def _number(text: object) -> str:
    if not isinstance(text, str) or len(text) > _MAX_NUMBER:
        raise ValueError
    return text
