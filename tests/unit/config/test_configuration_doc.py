"""The configuration page matches the code."""

from pathlib import Path
from types import ModuleType

from pulsar_barycenter.config.broker_conf import keys
from pulsar_barycenter.config.key import format_value
from support.scripts import load_script

ROOT = Path(__file__).parents[3]


def generator() -> ModuleType:
    return load_script("generate_configuration_doc")


def test_the_page_is_current() -> None:
    """If this fails: .venv/bin/python scripts/generate_configuration_doc.py"""
    assert (ROOT / "docs" / "configuration.md").read_text() == generator().document()


def test_every_key_has_an_effect_and_every_group_begins_with_a_key() -> None:
    assert all(key.effect.endswith(".") for key in keys().values())
    assert all(first in keys() for _, first in generator().GROUPS)


def test_the_page_of_versions_has_each_key_whose_default_changed() -> None:
    page = (ROOT / "docs" / "pulsar-versions.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    told = {row[0].strip("| `"): (row[1], row[2]) for row in rows}
    changed = {key.name: key for key in keys().values() if key.former_defaults}
    assert set(told) == set(changed)
    for name, (former, newest) in told.items():
        for said, value in ((former, changed[name].default_of("4.x")), (newest, changed[name].default)):
            assert value is None or format_value(value).rpartition(".impl.")[2] in said
