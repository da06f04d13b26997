"""When an issuer's keys are used, refreshed, waited for, or unknown: the table, at times that a test sets."""

import json
import math
from dataclasses import replace

import pytest

from pulsar_barycenter.broker.access.providers.issuer_keys import RETRY_S, KeptKeys, KeyTimes, Step, next_step
from pulsar_barycenter.credentials.openid import issuer_keys
from support.fake_issuer import RSA_KEY, jwk

TIMES = KeyTimes(refresh_s=100, expiration_s=200, missing_key_refresh_s=50)
KEYS = issuer_keys(json.dumps({"keys": [jwk(RSA_KEY, "one")]}).encode(), "u")
FRESH = KeptKeys(KEYS, fetched_s=1_000, asked_s=1_000)


@pytest.mark.parametrize(
    ("kept", "key_id", "after_s", "step"),
    [
        (KeptKeys(), "one", 0, Step.WAIT),
        (replace(KeptKeys(), asked_s=1_000, is_asking=True), "one", 0, Step.WAIT),
        (replace(KeptKeys(), asked_s=1_000, has_failed=True), "one", 0, Step.REFUSE),
        (replace(KeptKeys(), asked_s=1_000, has_failed=True), "one", RETRY_S, Step.WAIT),
        (FRESH, "one", 0, Step.USE),
        (FRESH, "one", 99, Step.USE),
        (FRESH, "one", 100, Step.REFRESH),
        (replace(FRESH, asked_s=1_100, is_asking=True), "one", 100, Step.USE),
        (replace(FRESH, asked_s=1_100, has_failed=True), "one", 101, Step.USE),
        (replace(FRESH, asked_s=1_100, has_failed=True), "one", 100 + RETRY_S, Step.REFRESH),
        (FRESH, "one", 199, Step.REFRESH),
        (FRESH, "one", 200, Step.WAIT),
        (replace(FRESH, asked_s=1_199, has_failed=True), "one", 200, Step.REFUSE),
        (FRESH, "two", 49, Step.REFUSE),
        (FRESH, "two", 50, Step.WAIT),
        (replace(FRESH, asked_s=1_049, is_asking=True), "two", 49, Step.WAIT),
        (replace(FRESH, asked_s=1_050, has_failed=True), "two", 99, Step.REFUSE),
        (replace(FRESH, asked_s=1_050, has_failed=True), "two", 100, Step.WAIT),
    ],
)
def test_what_is_done_for_a_token(kept: KeptKeys, key_id: str, after_s: float, step: Step) -> None:
    assert next_step(kept, key_id, 1_000 + after_s, TIMES) is step


def test_keys_that_were_not_just_had_are_asked_for_whatever_the_times() -> None:
    never = KeyTimes(0, math.ulp(0), math.inf)
    assert next_step(KeptKeys(), "one", 0, never) is Step.WAIT
    assert next_step(FRESH, "one", 1_000.1, never) is Step.WAIT


def test_a_missing_key_is_not_asked_for_more_often_than_an_issuer_that_fails() -> None:
    """With openIDKeyIdCacheMissRefreshSeconds=0 each token asks, unless the issuer just did not answer."""
    times = replace(TIMES, missing_key_refresh_s=0)
    assert next_step(FRESH, "two", 1_000, times) is Step.WAIT
    assert next_step(replace(FRESH, has_failed=True), "two", 1_001, times) is Step.REFUSE
