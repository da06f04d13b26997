"""The requirements of an accepted token, at a time that is an argument."""

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_private_key
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.credentials.token_keys import (
    SigningKey,
    VerifyingKey,
    new_key_pair,
    private_key,
    public_key,
    secret_key,
    signing_secret_key,
)
from pulsar_barycenter.credentials.tokens import (
    Refused,
    TokenRules,
    VerifiedToken,
    check_token,
    create_token,
    unverified,
)
from support.proofs import KEY, NOW_S, SECRET, SECRET_URL

RULES = TokenRules(secret_key(SECRET_URL))


def url(data: bytes) -> str:
    return f"data:;base64,{base64.b64encode(data).decode()}"


def signed(claims: Any, algorithm: str = "HS256", key: Any = SECRET, **headers: Any) -> str:
    return jwt.PyJWS().encode(json.dumps(claims).encode(), key, algorithm, headers=headers)


def reason(token: str, rules: TokenRules = RULES, now_s: float = NOW_S) -> str:
    found = check_token(token, rules, now_s)
    assert isinstance(found, Refused), found
    return found.reason


@given(st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=40), st.integers(1, 10**9))
def test_what_was_signed_is_believed_until_it_expires(role: str, life_s: int) -> None:
    token = create_token(KEY, role, expires_at_s=NOW_S + life_s)
    assert check_token(token, RULES, NOW_S + life_s - 1) == VerifiedToken(
        role, NOW_S + life_s, {"sub": role, "exp": NOW_S + life_s}
    )
    assert "expired" in reason(token, now_s=NOW_S + life_s)


@given(st.data())
def test_a_token_with_one_character_changed_is_refused(data: st.DataObject) -> None:
    token = create_token(KEY, "alice", expires_at_s=NOW_S + 60)
    at = data.draw(st.integers(0, len(token) - 2))  # the last may hold bits that say nothing
    other = data.draw(st.sampled_from(".AZaz09-_= é\0").filter(lambda character: character != token[at]))
    assert isinstance(check_token(token[:at] + other + token[at + 1 :], RULES, NOW_S), Refused)


@given(st.text(max_size=300))
def test_whatever_is_sent_is_judged(text: str) -> None:
    assert isinstance(check_token(text, RULES, NOW_S), Refused)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "ES256"])
def test_a_key_pair_signs_and_verifies(algorithm: str) -> None:
    private, public = new_key_pair(algorithm)
    token = create_token(private_key(url(private), algorithm, "test"), "alice")
    found = check_token(token, TokenRules(public_key(url(public), algorithm)), NOW_S)
    assert isinstance(found, VerifiedToken)
    assert (found.role, found.expires_at_s) == ("alice", None)
    assert "not signed" in reason(token)


@pytest.mark.parametrize(("size", "algorithm"), [(32, "HS256"), (48, "HS384"), (64, "HS512"), (100, "HS512")])
def test_a_secret_key_signs_by_the_strongest_algorithm_that_it_is_long_enough_for(size: int, algorithm: str) -> None:
    key = url(bytes(range(size)))
    token = create_token(signing_secret_key(key, "test"), "alice")
    header, _ = unverified(token)  # type: ignore[misc]
    assert header["alg"] == algorithm
    assert isinstance(check_token(token, TokenRules(secret_key(key)), NOW_S), VerifiedToken)


def test_a_token_without_a_signature_is_refused() -> None:
    assert "not signed" in reason(signed({"sub": "admin"}, "none", None))
    header, payload, _ = create_token(KEY, "admin").split(".")
    assert "not signed" in reason(f"{header}.{payload}.")


@pytest.mark.parametrize("form", ["der", "pem"])
def test_a_public_key_is_no_secret_that_tokens_may_be_signed_with(form: str) -> None:
    """Confusion of algorithms: an attacker with the public key signs HS256 with its bytes."""
    private, public = new_key_pair("RS256")
    loaded = load_der_private_key(private, None).public_key()
    pem = loaded.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    known = pem if form == "pem" else public
    forged = signed_by_hand({"alg": "HS256"}, {"sub": "admin"}, known)
    assert "RS256" in reason(forged, TokenRules(public_key(url(known))))


def signed_by_hand(header: dict[str, str], claims: dict[str, str], key: bytes) -> str:
    """Sign by HMAC with any bytes, which libraries refuse for keys of another kind."""
    import hashlib
    import hmac

    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
    signature = hmac.new(key, b".".join(parts), hashlib.sha256).digest()
    return b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def test_an_algorithm_that_needs_a_longer_key_is_refused() -> None:
    key = VerifyingKey(SECRET, ("HS256",))
    assert "HS256" in reason(signed_by_hand({"alg": "HS512"}, {"sub": "admin"}, SECRET), TokenRules(key))


def test_another_secret_is_refused() -> None:
    assert "not signed by the key" in reason(create_token(SigningKey(b"x" * 32, "HS256"), "admin"))


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"sub": "a", "exp": NOW_S - 5}, "the token expired 5 s ago"),
        ({"sub": "a", "exp": NOW_S - 7200}, "the token expired 2 h ago"),
        ({"sub": "a", "nbf": NOW_S + 300}, "the token is not valid before 5 min from now"),
        ({"sub": "a", "exp": "never"}, "claim exp is not a number"),
        ({"sub": "a", "exp": None}, "claim exp is not a number"),
        ({"sub": "a", "exp": True}, "claim exp is not a number"),
        ({"sub": "a", "exp": 10**400}, "claim exp is not a number"),
        ({"exp": NOW_S + 5}, "has no role in its claim sub"),
        ({"sub": ""}, "has no role"),
        ({"sub": 5}, "has no role"),
        ({"sub": []}, "has no role"),
        ({"sub": "a\nb"}, "has no role"),
        ({"sub": "a" * 1001}, "has no role"),
        (["sub", "a"], "this is not a JSON Web Token"),
    ],
)
def test_claims_that_are_refused(claims: Any, said: str) -> None:
    assert said in reason(signed(claims))


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
def test_the_end_of_the_line_of_a_file_is_no_part_of_a_token(end: str) -> None:
    token = create_token(KEY, "alice")
    assert isinstance(check_token(token + end, RULES, NOW_S), VerifiedToken)
    assert unverified(token + end) == unverified(token)
    assert "not a JSON Web Token" in reason(token[:-5] + end + token[-5:])


def test_the_skew_counts_on_both_sides() -> None:
    rules = TokenRules(RULES.key, clock_skew_s=10)
    expired, early = signed({"sub": "a", "exp": NOW_S - 9}), signed({"sub": "a", "nbf": NOW_S + 9})
    found = check_token(expired, rules, NOW_S)
    assert isinstance(found, VerifiedToken)
    assert found.expires_at_s == NOW_S + 1
    assert isinstance(check_token(early, rules, NOW_S), VerifiedToken)
    assert "expired" in reason(expired, rules, NOW_S + 1)


def test_the_role_may_be_another_claim_and_the_first_of_a_list() -> None:
    rules = TokenRules(RULES.key, role_claim="groups")
    found = check_token(signed({"sub": "a", "groups": ["b", "c"]}), rules, NOW_S)
    assert isinstance(found, VerifiedToken)
    assert found.role == "b"


@pytest.mark.parametrize(
    ("audience", "is_believed"),
    [("here", True), (["there", "here"], True), ("there", False), (["there"], False), (None, False), (5, False)],
)
def test_the_audience_must_be_this_one(audience: Any, is_believed: bool) -> None:
    rules = TokenRules(RULES.key, audience_claim="aud", audience="here")
    found = check_token(signed({"sub": "a", "aud": audience}), rules, NOW_S)
    assert isinstance(found, VerifiedToken) is is_believed


@pytest.mark.parametrize("headers", [{"crit": ["exp"]}, {"kid": "x"}, {"jku": "http://127.0.0.1:1/keys"}])
def test_headers_name_no_other_key(headers: dict[str, Any]) -> None:
    forged = signed({"sub": "admin"}, key=b"y" * 32, **headers)
    assert isinstance(check_token(forged, RULES, NOW_S), Refused)


def test_a_longer_text_is_no_token() -> None:
    assert "8000 characters" in reason("a" * 8001)


def test_keys_stand_in_no_text() -> None:
    assert "secret" not in repr(RULES)
    assert "secret" not in repr(KEY)
