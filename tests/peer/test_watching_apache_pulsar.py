"""`barycenter watch` beside Apache Pulsar itself, in a real browser: two brokers, one bookie, each load manager once.

With the modular load manager the cluster's own shedder moves bundles meanwhile: at least one of its moves is explained
by a recomputed round. A move by hand from the emptier broker is not. WATCH_PICTURES names a folder for pictures.
"""

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import expect

from support.apache_pulsar import EXTENSIBLE, MODULAR, ApachePulsar, apache_pulsar, soon
from support.browser_pages import NEEDS_CHROMIUM, chromium
from support.numbered_flow import flowing
from support.running_cluster import lookup_path

pytestmark = [
    pytest.mark.peer,
    pytest.mark.integration,
    NEEDS_CHROMIUM,
    pytest.mark.xdist_group("apache pulsar"),
]

BUNDLES, TOPICS = 8, 16
CONFIGURATION = {
    "statsUpdateFrequencyInSecs": "2",
    "loadBalancerSheddingEnabled": "true",
    "loadBalancerSheddingIntervalMinutes": "1",
    "loadBalancerLoadSheddingStrategy": "org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder",
    "loadBalancerReportUpdateMaxIntervalMinutes": "1",
    "loadBalancerHostUsageCheckIntervalMinutes": "1",
    "minUnloadMessage": "1",
    "minUnloadMessageThroughput": "1",
    # both brokers share this machine's processors: of overloaded ones a broker is drawn, perhaps the one that sheds
    "loadBalancerBrokerOverloadedThresholdPercentage": "100",
}


@pytest.fixture(scope="module", params=[MODULAR, EXTENSIBLE], ids=["modular", "extensible"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApachePulsar]:
    if not request.config.getoption("--peer-required"):
        pytest.skip("it takes minutes; make peer runs it")
    keys = {"loadManagerClassName": request.param, **CONFIGURATION}
    with apache_pulsar(tmp_path_factory.mktemp("watched"), configuration=keys) as started:
        yield started
        print(started.logs())


class Watch:
    """A running `barycenter watch`, and what it printed."""

    def __init__(self, *words: str) -> None:
        self.told: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pulsar_barycenter", "watch", "--json", "--port", "0", "--interval", "2", *words],
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.told.append(json.loads(line))

    @property
    def url(self) -> str:
        return str(self.told[0]["url"])

    def moves(self) -> list[dict[str, Any]]:
        return [one for one in self.told if one.get("kind") == "unload"]

    def close(self) -> int:
        self.process.terminate()
        status = self.process.wait(60)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


@contextmanager
def watching(*words: str) -> Iterator[Watch]:
    watch = Watch(*words)
    try:
        soon(lambda: bool(watch.told), what="the pages are served")
        yield watch
    finally:
        status = watch.close()
        for one in watch.told:
            print({key: str(value)[:300] for key, value in one.items()})
    assert status == 0


def served_by(cluster: ApachePulsar, topic: str) -> str:
    status, answer = cluster.call("GET", lookup_path(topic))
    urls = {broker.service_url: broker.broker_id for broker in cluster.brokers}
    return urls[answer["brokerUrl"]] if status == 200 else ""


def move(cluster: ApachePulsar, topic: str, broker: str) -> None:
    path = cluster.bundle_path(topic)

    def is_there() -> bool:
        if served_by(cluster, topic) not in ("", broker):
            cluster.call("PUT", f"{path}/unload?{urlencode({'destinationBroker': broker})}")
        return served_by(cluster, topic) == broker

    soon(is_there, what=f"{topic} is on {broker}")


def test_moves_of_the_cluster_and_of_a_person_are_seen_and_told_apart(
    cluster: ApachePulsar, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    is_modular = "modular" in request.node.callspec.id
    cluster.expect(204, "PUT", "/admin/v2/namespaces/public/watched", json={"bundles": {"numBundles": BUNDLES}})
    topics = [f"persistent://public/watched/orders-{number}" for number in range(TOPICS)]
    first, second = (broker.broker_id for broker in cluster.brokers)
    for topic in topics:
        move(cluster, topic, first)
    words = ("--url", cluster.brokers[0].web_url, "--service-url", cluster.service_url)
    with flowing(cluster.service_url, topics) as flow, watching(*words) as watch:
        assert watch.told[0]["brokers"] == 2 or not is_modular  # others publish later
        if is_modular:
            soon(lambda: any(one.get("agrees") for one in watch.moves()), within_s=240, what="an explained move")
            moved, destination = next(topic for topic in topics if served_by(cluster, topic) == second), first
        else:
            soon(lambda: owners_known(watch), within_s=120, what="owners are known")
            moved, destination = topics[0], second
        bundle = cluster.bundle_path(moved).removeprefix("/admin/v2/namespaces/")
        move(cluster, moved, destination)

        def by_hand() -> list[dict[str, Any]]:
            return [one for one in watch.moves() if (one["bundle"], one["destination"]) == (bundle, destination)]

        soon(lambda: bool(by_hand()), within_s=90, what="the move by hand is seen")
        assert by_hand()[-1]["agrees"] is False
        flow.wait_for_more(20)
        pictures = Path(os.environ.get("WATCH_PICTURES", tmp_path)) / f"watch-{request.node.callspec.id}"
        look_at_pages(watch.url, bundle, pictures)


def look_at_pages(url: str, bundle: str, pictures: Path) -> None:
    # its event loop allows no other one in this thread
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(url)
        event = page.locator("li.event").filter(has_text=bundle).filter(has_text="does not agree").first
        expect(event).to_be_visible()
        expect(page.locator(".summary")).to_contain_text("2 brokers")
        page.screenshot(path=f"{pictures}.png", full_page=True)
        page.goto(f"{url}#/bundle/{quote(bundle, safe='')}")
        expect(page.locator("section", has_text="Why there")).to_contain_text("It was seen to move to")
        page.screenshot(path=f"{pictures}-bundle.png", full_page=True)
        assert complaints == []


def owners_known(watch: Watch) -> bool:
    with urllib.request.urlopen(f"{watch.url}barycenter/v1/bundles?limit=1000", timeout=30) as answer:
        found = json.load(answer)
    return sum("public/watched/" in one["bundle"] for one in found["bundles"]) == BUNDLES
