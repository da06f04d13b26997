"""What tests in a real browser stand on. Each of their files is a group of its own, so that it starts one of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from support.served_cluster import ServedCluster


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from support.browser_pages import chromium  # who opens no browser does without

    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    """A cluster whose dashboard is opened."""
    from support.dashboard_pages import dashboard_cluster

    with dashboard_cluster(tmp_path_factory.mktemp("dashboard")) as served:
        yield served
