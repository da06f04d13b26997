"""One Spark session for all pipeline tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barycenter.pipeline.layout import PipelineLayout
from barycenter.pipeline.session import create_session

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
