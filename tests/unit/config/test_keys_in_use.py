"""Every offered key is read by code, or documented as without effect."""

import ast
from pathlib import Path

from pulsar_barycenter.config.broker_conf import keys

SOURCE = Path(__file__).parents[3] / "src" / "pulsar_barycenter"

NO_EFFECT = {"loadBalancerDebugModeEnabled", "openIDCacheSize"}
"""Offered so that Pulsar's files are taken as they are; their text says that they do nothing."""


def read_attributes() -> set[str]:
    """Return every attribute name that code reads or, outside `config`, has as a text, as for `getattr`."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        is_of_config = path.is_relative_to(SOURCE / "config")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not is_of_config:
                found.add(node.value)
    return found


def test_every_key_that_is_offered_is_read() -> None:
    read = read_attributes()
    unread = {key.name for key in keys().values() if key.offered and key.attribute not in read}
    assert unread == NO_EFFECT


def test_what_is_read_nowhere_says_so() -> None:
    assert all(keys()[name].effect.startswith("No effect") for name in NO_EFFECT)
