"""What the pipeline's tests have in common."""

from pathlib import Path

import pytest

from pulsar_barycenter.pipeline.storage.layout import PipelineLayout
from support.java_start import make_archive

HERE = Path(__file__).parent

BESIDE_PROCESSES = {
    *("test_extensible_with_pipeline", "test_pipeline_command", "test_pulsar_cluster", "test_replay_grid"),
    *("test_spark_cluster", "test_spark_connect"),
}
"""Files whose tests mostly wait for processes that they start."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in two workers, about half of the time in each: every worker that ran one would start a Spark of
    its own."""
    for item in items:
        if HERE in item.path.parents:
            beside = item.path.stem in BESIDE_PROCESSES
            item.add_marker(pytest.mark.xdist_group("spark beside processes" if beside else "spark"))


@pytest.fixture(scope="session", autouse=True)
def archive_of_classes() -> None:
    """Have it made before the first Spark starts, be that in this process or in one that a test runs."""
    make_archive()


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    made = PipelineLayout.of(tmp_path / "data")
    made.create()
    return made
