"""Makes the Markdown page of a strategy of another package: its docstrings, and its settings with their bounds.

The pages of our own strategies are made by `scripts/generate_strategy_docs.py`, which also runs their examples.
"""

import inspect
import sys
from collections.abc import Iterator

import msgspec
from msgspec.inspect import Field, FloatType, IntType, Type

from pulsar_barycenter.load.strategy_plugins import SETTINGS_KEY


def strategy_page(strategy: type[object], settings: type[msgspec.Struct] | None = None) -> str:
    """Return the documentation page of `strategy`, a class of another package, in Markdown.

    The text is the docstring of its module, then that of the class. The table of settings has the fields of `settings`
    with type, default and bounds, in their order.

    Args:
        strategy: A subclass of `Shedder` or `Placer`; its `name` is the title.
        settings: The struct that it gives to `settings_of`; None: it has no settings.

    >>> import msgspec
    >>> class Settings(msgspec.Struct, forbid_unknown_fields=True):
    ...     gap: float = 0.1
    >>> class AcmeShedder:
    ...     "Sheds the heaviest bundle of the fullest broker."
    ...     name = "AcmeShedder"
    >>> print(strategy_page(AcmeShedder, Settings).splitlines()[-1])
    | `gap` | float | `0.1` | – |
    """
    return "\n".join(_lines(strategy, settings)).rstrip() + "\n"


def _lines(strategy: type[object], settings: type[msgspec.Struct] | None) -> Iterator[str]:
    name = str(getattr(strategy, "name", strategy.__name__))
    yield f"# {name}\n"
    module = sys.modules[strategy.__module__]
    for text in dict.fromkeys((module.__doc__, strategy.__dict__.get("__doc__"))):
        if text and not text.startswith(f"{strategy.__name__}("):  # what `dataclass` writes
            yield f"{inspect.cleandoc(text)}\n"
    yield "## Settings\n"
    if settings is None:
        yield "It has no settings."
        return
    yield f"`{SETTINGS_KEY}` is a JSON object; these are the fields of its object `{name}`.\n"
    yield "| setting | type | default | bounds |\n|---|---|---|---|"
    inspected = msgspec.inspect.type_info(settings)
    assert isinstance(inspected, msgspec.inspect.StructType)
    for field in inspected.fields:
        yield f"| `{field.encode_name}` | {_type(field.type)} | {_default(field)} | {_bounds(field.type)} |"


def _default(field: Field) -> str:
    if field.default is not msgspec.NODEFAULT:
        return f"`{msgspec.json.encode(field.default).decode()}`"
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{msgspec.json.encode(field.default_factory()).decode()}`"
    return "–"


def _type(found: Type) -> str:
    return type(found).__name__.removesuffix("Type").lower()


def _bounds(found: Type) -> str:
    if not isinstance(found, (IntType, FloatType)):
        return "–"
    signs = (("≥", found.ge), (">", found.gt), ("≤", found.le), ("<", found.lt))
    return ", ".join(f"{sign} {bound:g}" for sign, bound in signs if bound is not None) or "–"
