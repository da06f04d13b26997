"""Measures how long the dashboard of a large cluster takes to show in a browser: `python -m benchmarks dashboard`.
Needs Chromium.

One real broker leads; the other brokers are only reports in its store, all of which change before each update. The
results are the times until the first paint and until the whole picture, the time of an update from its request to the
next frame, and the broker's CPU time for an update.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from benchmarks.leader_loop import report_of
from benchmarks.machine import print_table
from pulsar_barycenter.load.reports.load_report import encode_report
from pulsar_barycenter.standalone.scheduling import take_short_turns

OVERVIEW: Final = "/barycenter/v1/overview"
UPDATE: Final = """async () => {
    const { poll } = await import('/dashboard/cluster.js');
    const longest = { ms: 0 };
    let before = performance.now(), watching = true;
    const watch = now => {
        longest.ms = Math.max(longest.ms, now - before);
        before = now;
        if (watching) requestAnimationFrame(watch);
    };
    requestAnimationFrame(watch);
    const started = performance.now();
    await poll();
    await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
    watching = false;
    return [performance.now() - started, longest.ms];
}"""
"""Polls once; tells how long it took until all was drawn, and the longest time between two frames, in ms."""


def measure(brokers: int, bundles: int, updates: int) -> list[list[object]]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.browser_pages import chromium
    from support.served_cluster import ServedCluster

    rng, each = np.random.default_rng(1), bundles // brokers
    rows: list[list[object]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        ServedCluster(Path(folder), 1, load_balancer_shedding_enabled=False) as served,
        chromium() as browser,
    ):
        leader = served.cluster.brokers[0]

        async def reported(sequence: int) -> None:
            for broker in range(1, brokers):
                data = encode_report(report_of(broker, each, sequence, rng))
                await served.cluster.store.put(f"/loadbalance/brokers/10.0.0.{broker}:8080", data)
            while not _all_folded(leader.load_manager, brokers, sequence):  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.05)

        served.run(reported(1))
        made = []
        for _ in range(updates):
            time.sleep(2.1)  # the broker answers with the same picture for two seconds
            started = time.perf_counter()
            answer = served.run(served.cluster.expect(200, "GET", OVERVIEW))
            made.append((time.perf_counter() - started) * 1000)
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        started = time.perf_counter()
        page.goto(served.url)
        page.locator(".broker").nth(brokers - 2).locator(".part").first.wait_for()
        whole_ms = (time.perf_counter() - started) * 1000
        paint: Any = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        page.evaluate("async () => (await import('/dashboard/cluster.js')).pause(true)")
        drawn = []
        for number in range(updates):
            served.run(reported(number + 2))
            time.sleep(2.1)
            drawn.append(page.evaluate(UPDATE))
        rows += [
            ["first paint, ms", round(paint)],
            ["whole picture, ms", round(whole_ms)],
            ["update until it is drawn, ms (median)", round(median(took for took, _ in drawn))],
            ["longest time between two frames in an update, ms (median)", round(median(gap for _, gap in drawn))],
            ["the broker's answer, nothing changed, ms (median)", round(median(made))],
            ["size of the answer, KiB", round(len(answer.body) / 1024)],
            ["parts drawn", page.locator(".part").count()],
        ]
    return rows


def _all_folded(manager: Any, brokers: int, sequence: int) -> bool:
    reports = manager.load_data.fold.reports
    told = [report for name, report in reports.items() if name.startswith("10.")]
    return len(told) == brokers - 1 and all(report.sequence >= sequence for report in told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--bundles", type=int, default=100_000)
    parser.add_argument("--updates", type=int, default=5)
    arguments = parser.parse_args()
    take_short_turns()  # as a broker does
    rows = measure(arguments.brokers, arguments.bundles, arguments.updates)
    print_table(f"The dashboard of {arguments.brokers:,} × {arguments.bundles:,}", ["", "value"], rows)


if __name__ == "__main__":
    main()
