"""One Spark session for all pipeline tests."""

from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
from pyspark.sql import SparkSession

from barycenter.pipeline.layout import PipelineLayout
from barycenter.pipeline.pulsar_source import PulsarDataSource
from barycenter.pipeline.session import create_session
from support.one_broker import BrokerThread, OneBroker

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one worker: each worker that ran one would start a Spark of its own."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Compiling each plan to Java takes longer than running it on some rows; the job of test_pipeline_job compiles.
    conf = {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}
    session = create_session("barycenter tests", conf=conf)
    yield session
    session.stop()


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    made = PipelineLayout.of(tmp_path / "data")
    made.create()
    return made


@pytest.fixture
def pulsar_format(spark: SparkSession) -> None:
    """`format("pulsar")` is known to the session."""
    spark.dataSource.register(PulsarDataSource)


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    """One broker, in a thread of this process."""
    with BrokerThread(OneBroker) as running:
        yield running


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[pulsar.Client]:
    """The stock client of that broker."""
    client = pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()
