"""The reference of the public interface, made from the docstrings by Sphinx: `make site`, then build/site/index.html.

Docstrings are Markdown as in the rest of the sources; `_in_rst` converts what Sphinx reads differently. A name in
backticks that is public becomes a link. `tests/unit/test_site.py` builds with all warnings as errors, so a link to a
member that does not exist fails, and so does markup that cannot be parsed.
"""

import importlib
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import msgspec
from sphinx.application import Sphinx
from sphinx.util import logging

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

project = "Barycenter"
copyright = "the Barycenter authors"  # noqa: A001 - Sphinx names it
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "Barycenter: the public interface"
html_copy_source = False
html_show_copyright = False
default_role = "code"
nitpicky = True
nitpick_ignore_regex = [(r"py:class", r".*"), (r"py:data", r".*")]
"""Types in signatures: those of other libraries have no page here."""
python_use_unqualified_type_names = True
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {
    "members": True,
    "imported-members": True,
    "inherited-members": "OSError, ImportError, BaseException, Struct, StrEnum, Enum, Protocol, Generic, str",
}
napoleon_numpy_docstring = False

MODULES: Final = tuple(f"pulsar_barycenter.{name}" for name in ("history", "replay", "strategies", "testing"))
_MOST_FIELDS: Final = 12
"""The constructor of a class with more fields is not shown; docs/configuration.md lists those of BrokerConfig."""
_CODE: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")

log = logging.getLogger(__name__)


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", _convert, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-skip-member", _skip)


def _convert(_app: Sphinx, _what: str, name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = _in_rst(lines, name)


def _signature(
    _app: Sphinx, what: str, _name: str, value: Any, _options: Any, signature: str | None, returns: Any
) -> Any:
    if what == "class" and isinstance(value, type):
        fields = getattr(value, "__struct_fields__", ()) if issubclass(value, msgspec.Struct) else ()
        if len(fields) > _MOST_FIELDS or (signature and re.search(r"[(, ]_[a-z]", signature)):
            return "", None  # too long to read, or made by a function of the interface
    return signature, returns


def _skip(_app: Sphinx, what: str, name: str, value: Any, skip: bool, _options: Any) -> bool | None:
    is_field = not callable(value) and not isinstance(value, property | classmethod | staticmethod)
    return True if what == "class" and is_field and type(value).__name__ == "member_descriptor" else None


def _in_rst(lines: list[str], name: str) -> Iterator[str]:
    """Yield a docstring as reStructuredText: indented blocks as code, and code in backticks as links or literals."""
    before, is_after_blank, in_code, in_example = "", True, False, False
    for line in lines:
        is_indented = line.startswith("    ")
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if is_indented and is_after_blank and not in_code and before and not before.startswith(" "):
            in_code = True
            yield from (".. code-block:: python", "")
        elif line.strip() and not is_indented:
            in_code = False
        yield line if in_code or in_example else _CODE.sub(lambda found: _linked(found[1], name), line)
        is_after_blank = not line.strip()
        before = line if line.strip() else before


def _linked(text: str, name: str) -> str:
    target = _target(text.removesuffix("()"), name)
    return f":py:obj:`{text} <{target}>`" if target else f"``{text}``"


def _target(text: str, name: str) -> str | None:
    """Return the full name of the public object that a docstring of `name` calls `text`; None if it is not one."""
    if not re.fullmatch(r"\w+(\.\w+)?", text):
        return None
    home = next(module for module in MODULES if name.startswith(module))
    owner = name.removeprefix(f"{home}.").partition(".")[0]
    for module in (home, *(module for module in MODULES if module != home)):
        exports = importlib.import_module(module)
        head, _, member = text.partition(".")
        if head in exports.__all__:
            value = getattr(exports, head)
            if not member:
                return f"{module}.{head}"
            if not hasattr(value, member) and member not in getattr(value, "__annotations__", {}):
                log.warning("%s refers to %s, which does not exist", name, text)
            return f"{module}.{text}" if _has_entry(value, member) else f"{module}.{head}"
    exports = importlib.import_module(home)
    value = getattr(exports, owner, None) if owner in exports.__all__ else None
    return f"{home}.{owner}.{text}" if isinstance(value, type) and _has_entry(value, text) else None


def _has_entry(value: Any, member: str) -> bool:
    """Return whether the page of a class has an entry for a member: a documented function or property of ours."""
    for base in getattr(value, "__mro__", ()):
        found = vars(base).get(member)
        if found is not None and base.__module__.startswith("pulsar_barycenter"):
            return isinstance(found, FunctionType | property | cached_property | classmethod | staticmethod) and bool(
                found.__doc__
            )
    return False
