"""The reference of the public interface builds without a warning, from the docstrings, and needs no network."""

import importlib
import logging
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"

pytestmark = pytest.mark.xdist_group("site")  # one worker builds it, once


def configuration() -> Any:
    spec = spec_from_file_location("site_configuration", SITE / "conf.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built as `make site` does: every warning is an error."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-d", str(out / ".doctrees")]
    found = subprocess.run([*command, str(SITE), str(out)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return out


def test_the_pages_have_every_public_name(site: Path) -> None:
    for name in configuration().MODULES:
        page = (site / f"{name.rpartition('.')[2]}.html").read_text()
        module = importlib.import_module(name)
        for export in module.__all__:
            assert f'id="{name}.{export}"' in page, f"{name}.{export}"


def test_the_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loading = re.compile(r"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*\"|@import|url\(http")
    for page in [*site.glob("*.html"), *site.rglob("*.css")]:
        assert not loading.findall(page.read_text()), page


def test_a_name_in_backticks_becomes_a_link(site: Path) -> None:
    assert 'href="#pulsar_barycenter.history.open_history"' in (site / "history.html").read_text()


def test_a_reference_to_a_member_that_does_not_exist_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """And so an error of the build."""
    with caplog.at_level(logging.WARNING):
        configuration()._linked("RecordedHistory.nothing", "pulsar_barycenter.history.open_history")
    assert "refers to RecordedHistory.nothing, which does not exist" in caplog.text
