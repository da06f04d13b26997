"""How far the leader trusts the metadata store."""

import pytest

from pulsar_barycenter.load.service_units.stability import JITTERY_MS, MetadataStability, stability

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


def test_a_broker_that_is_gone_is_lost_at_once_later_or_not_at_all() -> None:
    assert MetadataStability.STABLE.cleanup_delay_s == 0
    assert MetadataStability.JITTERY.cleanup_delay_s == JITTERY_MS / 1000
    assert MetadataStability.UNSTABLE.cleanup_delay_s is None
