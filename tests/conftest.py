"""Options of the test suite, and fixtures of several kinds of tests; Spark and clients are imported on use."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from support.commit import first_of_commit
from support.java_start import make_archive, set_environment
from support.process_state import ProcessState, let_no_logger_remember
from support.short_forms import choose_form, examples, has_full_form, not_drawn

if TYPE_CHECKING:
    import pulsar
    from pyspark.sql import SparkSession

    from support.one_broker import BrokerThread

set_environment()
let_no_logger_remember()

TESTS = Path(__file__).parent
TRACED = {"unit", "contract"}
"""What --cov traces: tracing the other kinds takes minutes, and they show more than which lines they ran."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation", "whole clusters on virtual time (tests/simulation)")
    group.addoption("--sim-seeds", type=int, default=9, metavar="N", help="play the histories of N seeds")
    group.addoption("--sim-first", type=int, metavar="SEED", help="the first of these seeds; else the commit draws")
    group.addoption("--sim-seed", type=int, default=None, metavar="SEED", help="play this one history alone")
    group.addoption("--sim-log", default=None, metavar="FILE", help="with --sim-seed: write the brokers' events here")
    group = parser.getgroup(
        "rehearsal", "clusters of every load manager (tests/integration/test_every_load_manager.py)"
    )
    group.addoption("--rehearsal-rounds", type=int, default=1, metavar="N", help="take all steps N times")
    group.addoption("--rehearsal-topics", type=int, default=4, metavar="N", help="topics with traffic all the time")
    group.addoption("--rehearsal-seed", type=int, default=0, metavar="SEED", help="who is concerned, in which order")
    group = parser.getgroup("clusters", "clusters for tests (tests/integration/test_cluster_for_tests.py)")
    group.addoption("--cluster-starts", type=int, default=4, metavar="N", help="start and stop a cluster N times")
    group = parser.getgroup("faults", "what befalls clusters of processes and their stores (tests/faults)")
    group.addoption("--faults", type=int, default=5, metavar="N", help="have N faults befall them, over all stores")
    group.addoption(
        "--fault-store",
        action="append",
        default=[],
        metavar="STORE",
        help="have them befall this store alone; may be repeated",
    )
    group.addoption("--fault-seed", type=int, default=0, metavar="SEED", help="which, in which order, how long")
    group.addoption("--outage-rounds", type=int, default=2, metavar="N", help="rounds in which brokers are down")
    group.addoption(
        "--fault-config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="with this in the brokers' configuration; may be repeated",
    )
    group = parser.getgroup("peer", "Pulsar's own classes beside ours (tests/peer)")
    group.addoption("--peer-cases", type=int, default=200, metavar="N", help="draw N random cases of each kind")
    group.addoption("--peer-seed", type=int, default=0, metavar="SEED", help="draw them from this seed")
    group.addoption(
        "--peer-version",
        default="newest",
        choices=("newest", "both", "5.x", "4.x"),
        help="beside which Pulsar; the newest is 4.x where there is no Java for 5.x",
    )
    group.addoption("--peer-required", action="store_true", help="fail, not skip, where Pulsar cannot be had")
    group.addoption(
        "--mixed-minutes",
        type=float,
        default=3,
        metavar="N",
        help="move topics among Java and Python brokers for so long",
    )
    group.addoption("--peer-write", action="store_true", help="write what was seen into docs/compatibility.md")
    group = parser.getgroup("fuzz", "what nobody would send to a broker (tests/fuzz)")
    group.addoption("--fuzz-examples", type=int, default=250, metavar="N", help="try N rows of frames")
    group.addoption("--fuzz-requests", type=int, default=1, metavar="N", help="draw N requests for each operation")
    group = parser.getgroup("forms", "which form of the tests")
    group.addoption("--full-form", action="store_true", help="also run tests and cases that only the full form has")
    group = parser.getgroup("coverage", "which tests --cov traces")
    group.addoption("--cov-all-kinds", action="store_true", help="not only units and contracts; takes long")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the form of property tests, before any of them is imported.

    How long an example takes says more of the machine than of the code. Every run draws other examples, so few in each
    find as much over the weeks as many.
    """
    choose_form(config)
    slow = [HealthCheck.too_slow]
    settings.register_profile("untimed", deadline=None, suppress_health_check=slow, max_examples=examples(80))
    settings.load_profile("untimed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print which histories were played, and how to play them again at another commit."""
    played = [each.nodeid for kind in ("passed", "failed") for each in terminalreporter.stats.get(kind, ())]
    if any("[seed-" in name for name in played) and config.getoption("--sim-seed") is None:
        first, count = config.getoption("--sim-first"), config.getoption("--sim-seeds")
        first = first_of_commit() if first is None else first
        again = f".venv/bin/python -m pytest tests/simulation -n 2 --sim-first {first} --sim-seeds {count}"
        terminalreporter.write_line(f"simulated clusters: {count} fresh seeds; again: {again}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases that this commit does not draw, and pause coverage in tests of the kinds that are not traced.

    Last, so that a case is not left out that `-k` selects alone.
    """
    if not has_full_form(config) and (left_out := not_drawn(items, first_of_commit())):
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    if config.pluginmanager.hasplugin("_cov") and not config.getoption("--cov-all-kinds"):
        for item in items:
            if item.path.relative_to(TESTS).parts[0] not in TRACED:
                item.add_marker("no_cover")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what has only a full form."""
    if item.get_closest_marker("full_form") and not has_full_form(item.config):
        pytest.skip("only the full form has it; --full-form runs it, and make peer")


def pytest_collection_finish() -> None:
    """Exclude the collected items from Python's garbage collection, and collect less often: a tenth of a simulation.

    Modules and test items are most of the tracked objects, and stay until the end.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True)
def process_state(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give the process back what a test changed: else some other test fails in each order. A unit test fails for it."""
    before = ProcessState.now()
    yield
    after = ProcessState.now()
    if after.is_log_configured and not before.is_log_configured:
        before.give_log_back()
    if changes := before.changes(after):
        before.give_back()
        if request.path.is_relative_to(TESTS / "unit"):
            pytest.fail("the test leaves its process changed; give back what it had: " + "; ".join(changes))


@pytest.fixture
def spark(spark_of_the_process: SparkSession) -> Iterator[SparkSession]:
    """One session for all tests of a process; what a test let Spark cache is dropped after it."""
    yield spark_of_the_process
    spark_of_the_process.catalog.clearCache()  # else Spark compares every later plan with each that it keeps


@pytest.fixture(scope="session")
def spark_of_the_process() -> Iterator[SparkSession]:
    from pulsar_barycenter.pipeline.spark.session import INTERPRETED, create_session

    make_archive()
    conf = {"spark.sql.adaptive.enabled": "false", **INTERPRETED}  # the job of test_pipeline_job compiles
    session = create_session("barycenter tests", conf=conf)
    yield session
    session.stop()


@pytest.fixture
def pulsar_format(spark: SparkSession) -> None:
    """`format("pulsar")` is registered in the session."""
    from pulsar_barycenter.pipeline.pulsar_source import PulsarDataSource

    spark.dataSource.register(PulsarDataSource)


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    """One broker, in a thread of this process."""
    from support.one_broker import BrokerThread, OneBroker

    with BrokerThread(OneBroker) as running:
        yield running


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[pulsar.Client]:
    """The stock client of that broker."""
    from support.stock_client import connect

    client = connect(broker.url)
    yield client
    client.close()
