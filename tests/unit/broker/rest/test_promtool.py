"""Prometheus' own promtool checks the metrics of brokers, and the rules, if it is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from pulsar_barycenter.load.managers import ManagerKind
from support.leaders_metrics import scrape_of_leader

RULES = Path(__file__).parents[4] / "deploy" / "monitoring" / "barycenter-rules.yaml"

_COUNT = 'non-histogram and non-summary metrics should not have "_count" suffix'
_SUM = 'non-histogram and non-summary metrics should not have "_sum" suffix'
_UNIT = "metric names should not contain abbreviated units"
_CAMEL = "metric names should be written in 'snake_case' not 'camelCase'"

PULSARS_SPELLINGS = {
    "pulsar_broker_consumers_count": _COUNT,
    "pulsar_broker_producers_count": _COUNT,
    "pulsar_broker_subscriptions_count": _COUNT,
    "pulsar_broker_topics_count": _COUNT,
    "pulsar_bundle_consumer_count": _COUNT,
    "pulsar_bundle_producer_count": _COUNT,
    "pulsar_bundle_topics_count": _COUNT,
    "pulsar_connection_closed_total_count": _COUNT,
    "pulsar_connection_create_fail_count": _COUNT,
    "pulsar_connection_create_success_count": _COUNT,
    "pulsar_connection_created_total_count": _COUNT,
    "pulsar_consumers_count": _COUNT,
    "pulsar_entry_size_count": _COUNT,
    "pulsar_entry_size_sum": _SUM,
    "pulsar_lb_directMemory_usage": _CAMEL,
    "pulsar_producer_msg_average_Size": _CAMEL,
    "pulsar_producers_count": _COUNT,
    "pulsar_storage_write_latency_count": _COUNT,
    "pulsar_storage_write_latency_sum": _SUM,
    "pulsar_subscription_consumers_count": _COUNT,
    "pulsar_subscriptions_count": _COUNT,
    "pulsar_topics_count": _COUNT,
    **{f"pulsar_entry_size_le_{size}": _UNIT for size in ("100_kb", "16_kb", "1_kb", "1_mb", "2_kb", "4_kb")},
}
"""Names that Pulsar has, which boards ask for, and what promtool has against each."""


def promtool(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    if shutil.which("promtool") is None:
        pytest.skip("there is no promtool on the PATH (Debian: apt-get install --no-install-recommends prometheus)")
    return subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, check=False)


def test_the_rules_are_ones() -> None:
    judged = promtool("check", "rules", str(RULES))
    assert judged.returncode == 0, judged.stdout + judged.stderr


@pytest.mark.parametrize("kind", ManagerKind, ids=str)
async def test_nothing_is_wrong_with_a_scrape_but_pulsars_spellings(kind: ManagerKind, tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        promtool()
    judged = promtool("check", "metrics", text=await scrape_of_leader(kind, tmp_path))
    complaints = dict(line.split(" ", 1) for line in (judged.stdout + judged.stderr).splitlines())
    assert complaints.items() <= PULSARS_SPELLINGS.items()
    assert judged.returncode in (0, 3), "3: the names above"
