"""Make the data folder of docs/examples/history: the tables of a small cluster whose first broker is too full.

    .venv/bin/python scripts/make_example_history.py

Three brokers report the load of 24 bundles every minute for two hours. Every ten minutes a leader's round decides on
the last reports, as `barycenter decide` does, and its moves happen. The pipeline folds the logs once, with Spark. The
same releases of the libraries give the same rows.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, with_stats
from pulsar_barycenter.replay.synthetic.reports import LoadGenerator, LoadPlan, with_usage
from pulsar_barycenter.snapshots.snapshot_file import read_snapshot_file
from pulsar_barycenter.strategies import RoundMemory, config_of, run_round

TARGET: Final = Path(__file__).parents[1] / "docs" / "examples" / "history"
BROKERS: Final = 3
MINUTES: Final = 120
ROUND_MINUTES: Final = 10
START_MS: Final = 1_767_258_000_000
"""2026-01-01 09:00 UTC."""
MINUTE_MS: Final = 60_000


def write_logs(data: Path) -> None:
    """Write the load reports and the decision log of the cluster."""
    plan = LoadPlan(brokers=BROKERS, bundles=24, interval_ms=MINUTE_MS, start_ms=START_MS, seed=7, mean_rate=5_000.0)
    generator = LoadGenerator(plan)
    log = FileReportLog(data / "load-reports", retention_hours=1e6)
    leader = DecisionLog(generator.broker_id(0), data / "decisions")
    config = config_of(loadBalancerLoadSheddingStrategy="AvgShedder", loadBalancerLoadPlacementStrategy="AvgShedder")
    owner: dict[str, int] = {}
    before: dict[int, LocalBrokerData] = {}
    memory: RoundMemory | None = None
    for minute in range(MINUTES):
        drawn = [generator.report(minute * BROKERS + broker) for broker in range(BROKERS)]
        stats = {name: load for report in drawn for name, load in report.last_stats.items()}
        for number, name in enumerate(sorted(stats)):
            owner.setdefault(name, 0 if number % 4 else 1 + number // 4 % 2)
        for broker, report in enumerate(drawn):
            bundles = before[broker].bundles if broker in before else ()
            own = {name: load for name, load in stats.items() if owner[name] == broker}
            blank = msgspec.structs.replace(report, bundles=bundles)
            before[broker] = with_usage(with_stats(blank, own))
            log.append(before[broker])
        if minute % ROUND_MINUTES == ROUND_MINUTES - 1:
            found = read_snapshot_file(data / "load-reports").snapshot
            outcome, memory = run_round(found, config, memory=memory, seed=minute)
            for move in outcome.moves:
                at_ms = START_MS + minute * MINUTE_MS + 55_000
                leader.record(
                    at_ms,
                    "unload",
                    move.reason,
                    bundle=move.bundle,
                    source=move.source,
                    destination=move.destination or "",
                    manager="modular",
                )
                owner[move.bundle] = int(str(move.destination).removeprefix("broker-").partition(":")[0])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "cluster"
        data.mkdir()
        write_logs(data)
        command = [sys.executable, "-m", "pulsar_barycenter", "pipeline", "run", "--once", "--data", str(data)]
        subprocess.run(command, check=True)
        shutil.rmtree(TARGET, ignore_errors=True)
        shutil.copytree(data / "tables", TARGET / "tables", ignore=shutil.ignore_patterns(".*"))


if __name__ == "__main__":
    main()
