"""How far the leader relies on the metadata store."""

import pytest

from pulsar_barycenter.load.service_units.stability import JITTERY_MS, MetadataStability, cleanup_delay_ms, stability

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("has_session", "ago_ms", "expected"),
    [
        (True, None, MetadataStability.STABLE),
        (True, 0, MetadataStability.JITTERY),
        (True, JITTERY_MS, MetadataStability.JITTERY),
        (True, JITTERY_MS + 1, MetadataStability.STABLE),
        (False, None, MetadataStability.UNSTABLE),
        (False, JITTERY_MS + 1, MetadataStability.UNSTABLE),
    ],
)
def test_a_session_that_was_lost_is_distrusted_for_a_while(
    has_session: bool, ago_ms: int | None, expected: MetadataStability
) -> None:
    reestablished_at_ms = None if ago_ms is None else NOW - ago_ms
    assert stability(has_session=has_session, reestablished_at_ms=reestablished_at_ms, now_ms=NOW) is expected


@pytest.mark.parametrize(
    ("has_session", "ago_ms", "expected"),
    [
        (True, None, 0),
        (True, 0, 30_000),
        (True, 10_000, 20_000),
        (True, 30_000, 0),
        (True, JITTERY_MS + 1, 0),
        (False, None, None),
        (False, 10_000, None),
    ],
)
def test_a_broker_that_is_gone_is_lost_once_the_others_may_have_new_sessions(
    has_session: bool, ago_ms: int | None, expected: int | None
) -> None:
    reestablished_at_ms = None if ago_ms is None else NOW - ago_ms
    state = stability(has_session=has_session, reestablished_at_ms=reestablished_at_ms, now_ms=NOW)
    delay_ms = cleanup_delay_ms(state, reestablished_at_ms=reestablished_at_ms, now_ms=NOW, session_timeout_ms=30_000)
    assert delay_ms == expected
