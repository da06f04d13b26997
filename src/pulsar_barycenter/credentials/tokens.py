"""Creates and verifies JSON Web Tokens. The time is an argument; nothing here reads a file.

A token is accepted if it is signed by the key with one of the key's own algorithms, the time is within its limits, it
is for the required audience, if one is required, and it has a role.

Source: Pulsar's `AuthenticationProviderToken`. Two differences: a token whose role is not text is refused, and so is
one of more than MAX_TOKEN characters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
from jwt.api_jws import PyJWS
from jwt.exceptions import DecodeError, InvalidAlgorithmError, InvalidSignatureError, PyJWTError

from pulsar_barycenter.credentials.bounds import MAX_ROLE, MAX_TOKEN
from pulsar_barycenter.credentials.token_keys import SigningKey, VerifyingKey

_LAST_MOMENT_S: Final = 10**15
_JWS: Final = PyJWS(options={"verify_signature": True, "enforce_minimum_key_length": True})


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The requirements for a token. If `audience` is set, the claim named `audience_claim` must be this text, or a list
    that contains it.
    """

    key: VerifyingKey
    role_claim: str = "sub"
    audience_claim: str = ""
    audience: str = ""
    clock_skew_s: float = 0.0


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """An accepted token. `expires_at_s` (seconds since 1970) is when it ends, including the allowed difference of the
    clocks; None if it never ends.
    """

    role: str
    expires_at_s: float | None
    claims: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refused:
    """A token that is not accepted. `reason` may be sent to any client: it contains nothing of the token except the
    name of its algorithm.
    """

    reason: str


TokenResult: TypeAlias = VerifiedToken | Refused


def check_token(token: str, rules: TokenRules, now_s: float) -> TokenResult:
    """Verify a token. Return its role and claims, or why it is refused. `now_s` is the current time in seconds since
    1970.
    """
    claims = signed_claims(token, rules.key)
    if isinstance(claims, Refused):
        return claims
    for refused in (outside_time(claims, rules.clock_skew_s, now_s), _of_audience(claims, rules)):
        if refused is not None:
            return refused
    role = role_of(claims.get(rules.role_claim))
    if role is None:
        return Refused(f"the token has no role in its claim {rules.role_claim}")
    expires_at_s = claims.get("exp")
    return VerifiedToken(role, None if expires_at_s is None else expires_at_s + rules.clock_skew_s, claims)


def signed_claims(token: str, key: VerifyingKey) -> Mapping[str, Any] | Refused:
    """Return the claims of a token if `key` signed it, otherwise why it is refused. The token's time limits are not
    checked here. White space after the token, such as the line break in a file, is ignored, as in Pulsar.
    """
    if not token:
        return Refused("there is no token")
    if len(token) > MAX_TOKEN or not token.isascii():
        return Refused(f"this is not a token: it has more than {MAX_TOKEN} characters, or non-ASCII ones")
    try:
        payload = _JWS.decode_complete(token.rstrip(), key.key, list(key.algorithms))["payload"]
        claims = msgspec.json.decode(payload, type=dict[str, Any])
    except InvalidSignatureError:
        return Refused("the token is not signed by the key that this cluster trusts, or it was changed")
    except InvalidAlgorithmError:
        return Refused(
            f"the token is not signed with an algorithm of this cluster's key: {' or '.join(key.algorithms)}"
        )
    except (DecodeError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Refused("this is not a JSON Web Token")
    except PyJWTError as error:
        return Refused(f"the token cannot be checked: {type(error).__name__}")
    return claims


def unverified(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]] | Refused:
    """Return the header and the claims of a token without verifying its signature; Refused if `token` is not a
    token.
    """
    try:
        found = PyJWS().decode_complete(token.rstrip(), options={"verify_signature": False})
        claims = msgspec.json.decode(found["payload"], type=dict[str, Any])
    except (PyJWTError, msgspec.MsgspecError, UnicodeError, RecursionError):
        return Refused("this is not a JSON Web Token")
    return found["header"], claims


def create_token(
    key: SigningKey, subject: str, *, expires_at_s: int | None = None, headers: Mapping[str, str] | None = None
) -> str:
    """Create a token signed with `key`. Its claim `sub`, which brokers use as the role by default, is `subject`."""
    claims: dict[str, Any] = {"sub": subject} | ({} if expires_at_s is None else {"exp": expires_at_s})
    return _JWS.encode(msgspec.json.encode(claims), key.key, key.algorithm, {**(headers or {}), "typ": "JWT"})


def outside_time(claims: Mapping[str, Any], skew_s: float, now_s: float) -> Refused | None:
    """Return why a token is not valid at `now_s` (seconds since 1970), or None if it is valid.

    It is valid from `skew_s` seconds before the claim `nbf` (inclusive) to `skew_s` seconds after the claim `exp`
    (exclusive). Without a claim there is no limit on that side.
    """
    for name in ("exp", "nbf"):
        if name in claims and not is_moment(claims[name]):
            return Refused(f"the token's claim {name} is not a number of seconds since 1970")
    if "exp" in claims and now_s >= claims["exp"] + skew_s:
        return Refused(f"the token expired {_duration_text(now_s - claims['exp'])} ago")
    if "nbf" in claims and now_s < claims["nbf"] - skew_s:
        return Refused(f"the token is not valid before {_duration_text(claims['nbf'] - now_s)} from now")
    return None


def is_moment(value: object) -> bool:
    """Return whether the value of a claim can be a time in seconds since 1970."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LAST_MOMENT_S


def _of_audience(claims: Mapping[str, Any], rules: TokenRules) -> Refused | None:
    if not rules.audience:
        return None
    audience = claims.get(rules.audience_claim)
    named = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
    if rules.audience not in named:
        return Refused(
            f"the token is not for this cluster: {rules.audience!r} is not in its claim {rules.audience_claim}"
        )
    return None


def role_of(claim: object) -> str | None:
    """Return the role in the value of a claim: a text, or the first item of a list; None if it is not a valid role."""
    role = claim[0] if isinstance(claim, list) and claim else claim
    return role if isinstance(role, str) and 0 < len(role) <= MAX_ROLE and role.isprintable() else None


def _duration_text(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
