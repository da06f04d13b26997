"""Commands as they are typed where nobody has said how wide the terminal is, and no cluster is the usual one."""

import pytest


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "BARYCENTER_URL"):
        monkeypatch.delenv(name, raising=False)
