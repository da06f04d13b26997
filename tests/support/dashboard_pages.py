"""The dashboard of a served cluster in a browser: a cluster with varied content, its pages and their problems."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from pulsar_barycenter.pipeline.tables.files import Tables
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.run.broker_process import load_tables_of
from support.served_cluster import ServedCluster

HOSTILE: Final = "persistent://public/ns/<img src=x onerror=\"document.title='owned'\">"
TOPICS: Final = [f"t{number}" for number in range(12)]
OLD_DECISIONS: Final = 700
"""In the log of a broker that is gone."""
OLD_BUNDLE: Final = "public/old/0x00000000_0xffffffff"
NO_PATCHES: Final[Mapping[str, Callable[[Any], Any]]] = {}
_MINUTE: Final = timedelta(minutes=1)
_PATIENCE_MS: Final = 15_000

expect.set_options(timeout=_PATIENCE_MS)


@contextmanager
def dashboard_cluster(folder: Path) -> Iterator[ServedCluster]:
    """Two brokers with bundles, a topic of a hostile name, an old log, and tables of the last six hours."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    old = DecisionLog("gone:8080", folder / "0" / "decisions")
    for number in range(OLD_DECISIONS):
        at = now - timedelta(days=2) + number * _MINUTE
        kinds: Any = "assign" if number % 2 else "refuse"
        old.record(
            int(at.timestamp() * 1000), kinds, Reason(code=Code.IDLE_BROKER), bundle=OLD_BUNDLE, destination="gone:8080"
        )
    with ServedCluster(folder, load_tables=load_tables_of(folder / "tables-of-all")) as served:
        cluster = served.cluster
        served.run(cluster.create_namespace(bundles=8))
        for name in [*TOPICS, quote(HOSTILE.rpartition("/")[2], safe="")]:
            served.run(cluster.expect(204, "PUT", f"/admin/v2/persistent/public/ns/{name}"))
        served.report()
        _write_tables(folder / "tables-of-all", now, [broker.broker_id for broker in cluster.brokers])
        yield served


def _write_tables(data: Path, now: datetime, brokers: Sequence[str]) -> None:
    bundle = "public/ns/0x00000000_0x20000000"
    reports = [
        {
            "broker": broker,
            "bundle": bundle,
            "incarnation": "before",
            "sequence": minute,
            "reported_at": now - minute * _MINUTE,
            "cpu_percent": 20.0 + 40 * place + minute % 7,
            "msg_rate_in": 1_000.0 * (place + 1) + minute,
            "msg_throughput_in": 1e6 * (place + 1),
            "bundles": 4,
        }
        for minute in range(1, 360)
        for place, broker in enumerate(brokers)
    ]
    for name in ("load_reports", "broker_usage", "bundle_samples"):
        schema = TABLES[name].arrow_schema
        blank = {each.name: None if each.nullable else "" if pa.types.is_string(each.type) else 0 for each in schema}
        rows = [blank | {key: row[key] for key in row if key in blank} for row in reports]
        Tables(PipelineLayout.of(data)).write(name, 0, pa.Table.from_pylist(rows, schema=schema))


def opened(
    browser: Browser,
    served: ServedCluster,
    place: str = "",
    *,
    patches: Mapping[str, Callable[[Any], Any]] = NO_PATCHES,
    **context: Any,
) -> tuple[Page, list[str]]:
    """Return a page and the list of its problems: errors, refusals of its policy, requests to other hosts.

    `patches` change the JSON answers of the broker, by path.
    """
    page = browser.new_page(**context)
    page.set_default_timeout(_PATIENCE_MS)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.on(
        "request", lambda request: None if request.url.startswith(f"{served.url}/") else complaints.append(request.url)
    )
    for path, change in patches.items():
        patched(page, path, change)
    page.goto(f"{served.url}/{place}")
    return page, complaints


def patched(page: Page, path: str, change: Callable[[Any], Any]) -> None:
    """Change the answers that a page gets to its requests of a path."""

    def answer(route: Route) -> None:
        response = route.fetch()
        if response.status == 200:
            route.fulfill(response=response, json=change(response.json()))
        else:
            route.fulfill(response=response)

    page.route(re.compile(re.escape(path)), answer)


def address(kind: str, name: str) -> str:
    return f"#/{kind}/{quote(name, safe='')}"


def explained(served: ServedCluster, **query: str) -> Any:
    return served.get("/barycenter/v1/explanation", **query)


def tab_to(page: Page, matches: str) -> None:
    """Press Tab until a matching element has the focus."""
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", matches):
            return
    pytest.fail(f"Tab leads to no {matches}")


def barriers(page: Page) -> list[tuple[str, list[str]]]:
    """Return what axe finds: broken rules, each with the first elements that break it."""
    violations = Axe().run(page).response["violations"]
    return [(one["id"], [node["html"][:150] for node in one["nodes"][:3]]) for one in violations]
