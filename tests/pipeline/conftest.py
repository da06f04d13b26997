"""What the pipeline's tests have in common."""

from pathlib import Path

import pytest

from barycenter.pipeline.storage.layout import PipelineLayout

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one worker: each worker that ran one would start a Spark of its own."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture
def layout(tmp_path: Path) -> PipelineLayout:
    made = PipelineLayout.of(tmp_path / "data")
    made.create()
    return made
