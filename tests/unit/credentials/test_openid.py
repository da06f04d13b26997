"""Which access tokens are accepted, by the keys that an issuer publishes, and which keys of a set are used."""

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pulsar_barycenter.credentials.bounds import MAX_TOKEN
from pulsar_barycenter.credentials.errors import IssuerError
from pulsar_barycenter.credentials.issuers import MAX_DOCUMENT_BYTES, discovery_url
from pulsar_barycenter.credentials.openid import (
    MAX_KEYS,
    IssuerKeys,
    OpenIDRules,
    check_openid_token,
    claimed,
    issuer_keys,
    keys_url,
)
from pulsar_barycenter.credentials.tokens import Refused, TokenResult, VerifiedToken
from support.fake_issuer import AUDIENCE, EC_KEY, OTHER_RSA_KEY, RSA_KEY, access_token, jwk
from support.proofs import NOW_S

ISSUER = "https://issuer.example/realm"
RULES = OpenIDRules(frozenset({ISSUER, "https://other.example"}), frozenset({AUDIENCE, "second"}))


def key_set(*keys: dict[str, Any]) -> IssuerKeys:
    return issuer_keys(json.dumps({"keys": keys}).encode(), f"{ISSUER}/jwks")


KEYS = key_set(jwk(RSA_KEY, "one"), jwk(EC_KEY, "two", alg="ES256"), jwk(OTHER_RSA_KEY, "three", alg="PS256"))


def judged(token: str, keys: IssuerKeys = KEYS, rules: OpenIDRules = RULES, now_s: float = NOW_S) -> TokenResult:
    said = claimed(token, rules)
    return said if isinstance(said, Refused) else check_openid_token(token, said, keys, rules, now_s)


def refusal(token: str, **options: Any) -> str:
    found = judged(token, **options)
    assert isinstance(found, Refused), found
    return found.reason


def made(issuer: str = ISSUER, **options: Any) -> str:
    return access_token(issuer, **{"now_s": NOW_S, **options})


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_key_of_rsa_without_an_algorithm_believes_all_of_its_own(algorithm: str) -> None:
    found = judged(made(algorithm=algorithm))
    assert isinstance(found, VerifiedToken)
    assert (found.role, found.expires_at_s) == ("alice", NOW_S + 3600)


@pytest.mark.parametrize(
    ("curve", "algorithm"), [(ec.SECP256R1(), "ES256"), (ec.SECP384R1(), "ES384"), (ec.SECP521R1(), "ES512")]
)
def test_a_key_of_a_curve_believes_its_algorithm(curve: ec.EllipticCurve, algorithm: str) -> None:
    key = ec.generate_private_key(curve)
    assert isinstance(judged(made(key=key, algorithm=algorithm), key_set(jwk(key, "one"))), VerifiedToken)


def test_a_stated_algorithm_is_the_only_one() -> None:
    assert isinstance(judged(made(key=OTHER_RSA_KEY, key_id="three", algorithm="PS256")), VerifiedToken)
    assert "not signed with an algorithm of that key" in refusal(
        made(key=OTHER_RSA_KEY, key_id="three", algorithm="RS256")
    )


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["elsewhere", "second"]},
        {"nbf": NOW_S},
        {"iat": NOW_S},
        {"exp": NOW_S + 1},
        {"role": "x" * 1000},
    ],
)
def test_what_may_be_said(claims: dict[str, Any]) -> None:
    assert isinstance(judged(made(**claims)), VerifiedToken)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://issuer.example/realm/"}, "issuer is not one that this cluster allows"),
        ({"iss": "HTTPS://issuer.example/realm"}, "issuer is not one that this cluster allows"),
        ({"iss": [ISSUER]}, "issuer is not one that this cluster allows"),
        ({"iss": None}, "issuer is not one that this cluster allows"),
        ({"aud": "elsewhere"}, "aud has none of the allowed audiences"),
        ({"aud": ["elsewhere", 1, [AUDIENCE]]}, "aud has none of the allowed audiences"),
        ({"aud": {AUDIENCE: True}}, "aud has none of the allowed audiences"),
        ({"aud": None}, "aud has none of the allowed audiences"),
        ({"exp": NOW_S}, "expired 0 s ago"),
        ({"exp": NOW_S - 86_400 * 3}, "expired 3 d ago"),
        ({"exp": None}, "lacks the claim exp"),
        ({"exp": "soon"}, "exp is not a number"),
        ({"nbf": NOW_S + 1}, "not valid before 1 s from now"),
        ({"nbf": "soon"}, "nbf is not a number"),
        ({"iat": NOW_S + 1}, "issue time is in the future"),
        ({"iat": None}, "lacks the claim iat"),
        ({"iat": True}, "iat is not a number"),
        ({"sub": None}, "lacks the claim sub"),
        ({"sub": "a\nb"}, "has no role"),
        ({"sub": "x" * 1001}, "has no role"),
        ({"sub": {"a": 1}}, "has no role"),
    ],
)
def test_what_may_not_be_said(claims: dict[str, Any], reason: str) -> None:
    assert reason in refusal(made(**claims))


def test_clocks_may_differ_by_the_leeway() -> None:
    rules = OpenIDRules(RULES.issuers, RULES.audiences, leeway_s=30)
    late = judged(made(exp=NOW_S - 29), rules=rules)
    assert isinstance(late, VerifiedToken)
    assert late.expires_at_s == NOW_S + 1
    assert isinstance(judged(made(iat=NOW_S + 30, nbf=NOW_S + 30), rules=rules), VerifiedToken)
    for claims in ({"exp": NOW_S - 30}, {"nbf": NOW_S + 31}, {"iat": NOW_S + 31}):
        refusal(made(**claims), rules=rules)


def test_the_role_may_be_another_claim() -> None:
    rules = OpenIDRules(RULES.issuers, RULES.audiences, "roles")
    found = judged(made(roles=["orders", "clicks"]), rules=rules)
    assert isinstance(found, VerifiedToken)
    assert found.role == "orders"
    assert "lacks the claim roles" in refusal(made(), rules=rules)
    assert "lacks the claim sub" in refusal(made(sub=None, roles="orders"), rules=rules)
    for roles in ([], [1], 1):
        assert "has no role in its claim roles" in refusal(made(roles=roles), rules=rules)


def test_a_token_without_a_signature_is_refused() -> None:
    unsigned = made(key=None, algorithm="none")
    assert "not signed with a public key's algorithm" in refusal(unsigned)
    head, body, _ = made().split(".")
    assert "not signed by the key" in refusal(f"{head}.{body}.")
    assert "not signed by the key" in refusal(f"{head}.{body}.{made(sub='root').split('.')[2]}")


@pytest.mark.parametrize("form", [PublicFormat.SubjectPublicKeyInfo, PublicFormat.PKCS1])
@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER])
def test_a_public_key_is_no_secret_to_sign_with(form: PublicFormat, encoding: Encoding) -> None:
    """PyJWT itself does not sign in this way; an attacker would."""
    import hashlib
    import hmac

    secret = RSA_KEY.public_key().public_bytes(encoding, form)
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"one","typ":"JWT"}').rstrip(b"=")
    body = made().split(".")[1].encode()
    signed = base64.urlsafe_b64encode(hmac.digest(secret, head + b"." + body, hashlib.sha256)).rstrip(b"=")
    assert "not signed with a public key's algorithm" in refusal(b".".join((head, body, signed)).decode())


def test_a_key_is_of_its_own_issuer_alone() -> None:
    """The keys of each issuer are a set; a token that names another issuer is judged by that one's."""
    stolen = made("https://other.example")
    assert "is not signed by the key" in refusal(stolen, keys=key_set(jwk(OTHER_RSA_KEY, "one")))


@pytest.mark.parametrize(
    "key_id", ["", "four", "../../one", "one' OR '1'='1", "file:///dev/null", "x" * 501, 1, None, ["one"]]
)
def test_an_id_of_a_key_chooses_among_the_keys_and_nothing_else(key_id: Any) -> None:
    headers = {} if key_id is None else {"kid": key_id}
    head = base64.urlsafe_b64encode(json.dumps({"alg": "RS256", **headers}).encode()).rstrip(b"=").decode()
    _, body, signature = made().split(".")
    said = refusal(f"{head}.{body}.{signature}")
    assert "no key with that id" in said or "does not state which key" in said or "not a JSON Web Token" in said


@pytest.mark.parametrize(
    "headers",
    [
        {"jwk": jwk(OTHER_RSA_KEY, "one")},
        {"jku": "https://evil.example/jwks"},
        {"x5u": "https://evil.example/certificate"},
        {"crit": ["exp"], "exp": 1},
    ],
)
def test_a_key_or_address_in_the_token_is_not_taken(headers: dict[str, Any]) -> None:
    refusal(made(key=OTHER_RSA_KEY, headers=headers))


def test_what_is_no_token_is_refused() -> None:
    for text in ("", "x", "a.b.c", "a.b.c.d.e", "x" * (MAX_TOKEN + 1), "é.é.é", made()[:-3] + "===", "." * 100):
        refusal(text)


@pytest.mark.parametrize(
    "more",
    [
        {"use": "enc"},
        {"key_ops": ["encrypt"]},
        {"key_ops": "verify"},
        {"alg": "HS256"},
        {"alg": "RSA-OAEP"},
        {"alg": 1},
        {"d": "AQAB"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "OKP", "crv": "Ed25519"},
        {"kty": ["RSA"]},
        {"n": "AQAB"},
        {"n": "A" * 1401},
        {"n": 1},
        {"e": "AA"},
        {"e": "AQ" + "A" * 60},
        {"n": None},
        {"kid": 1},
        {"kid": "x" * 501},
        {"kid": None},
    ],
)
def test_keys_that_cannot_be_used_are_passed_over(more: dict[str, Any]) -> None:
    broken = jwk(RSA_KEY, "one") | more
    keys = issuer_keys(json.dumps({"keys": [broken, 1, None, [], jwk(EC_KEY, "two")]}).encode(), "u")
    assert not keys.has("one")
    assert isinstance(judged(made(key=EC_KEY, key_id="two", algorithm="ES256"), keys), VerifiedToken)


def test_keys_of_curves_that_cannot_be_used_are_passed_over() -> None:
    good = jwk(EC_KEY, "one")
    for more in ({"crv": "P-192"}, {"crv": ["P-256"]}, {"x": good["y"]}, {"x": "AA"}, {"y": None}, {"kty": "RSA"}):
        assert not key_set(good | more).has("one")


def test_weak_keys_are_passed_over() -> None:
    weak = rsa.generate_private_key(public_exponent=65_537, key_size=1024)
    assert not key_set(jwk(weak, "one")).has("one")


def test_of_two_keys_with_an_id_the_first_of_a_kind_counts() -> None:
    keys = key_set(jwk(EC_KEY, "one"), jwk(RSA_KEY, "one"), jwk(OTHER_RSA_KEY, "one"))
    assert isinstance(judged(made(), keys), VerifiedToken)
    assert isinstance(judged(made(key=EC_KEY, algorithm="ES256"), keys), VerifiedToken)
    refusal(made(key=OTHER_RSA_KEY), keys=keys)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (b"", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"\xff", "not a JSON object"),
        (b'{"keys":' + b"[" * 100_000, "not a JSON object"),
        (b"{}", "not a JSON Web Key Set"),
        (b'{"keys": {}}', "not a JSON Web Key Set"),
        (b'{"keys": [' + b",".join([b"{}"] * (MAX_KEYS + 1)) + b"]}", "more than 100 keys"),
        (b'{"keys": [], "x": "' + b"x" * MAX_DOCUMENT_BYTES + b'"}', "more than 262,144 bytes"),
    ],
)
def test_a_document_that_is_no_key_set_is_told(document: bytes, said: str) -> None:
    with pytest.raises(IssuerError, match=said):
        issuer_keys(document, "https://issuer.example/jwks")


def test_no_keys_are_a_set_too() -> None:
    assert not key_set().has("one")


def test_metadata_name_the_keys_of_the_issuer_that_was_asked() -> None:
    assert discovery_url("https://i/realm") == discovery_url("https://i/realm/")
    good = {"issuer": ISSUER, "jwks_uri": "https://issuer.example/jwks"}
    assert keys_url(json.dumps(good).encode(), ISSUER) == "https://issuer.example/jwks"
    for wrong, said in (
        ({"issuer": "https://evil.example"}, "field issuer differs from"),
        ({"issuer": ISSUER + "/"}, "field issuer differs from"),
        ({"issuer": None}, "field issuer differs from"),
        ({"jwks_uri": None}, "has no jwks_uri"),
        ({"jwks_uri": "https://" + "x" * 2000}, "has no jwks_uri"),
    ):
        with pytest.raises(IssuerError, match=said):
            keys_url(json.dumps(good | wrong).encode(), ISSUER)


def test_errors_hold_no_user_of_an_address() -> None:
    assert "secret" not in str(IssuerError("https://user:secret@host/a?key=secret", "is wrong"))


def test_pyjwt_takes_what_is_signed_here() -> None:
    """The tests' own tokens are those of any issuer."""
    key = RSA_KEY.public_key()
    assert jwt.decode(access_token(ISSUER), key, ["RS256"], audience=AUDIENCE)["iss"] == ISSUER
