"""Commands without a given width of the terminal and without a default cluster."""

import pytest


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "BARYCENTER_URL"):
        monkeypatch.delenv(name, raising=False)
