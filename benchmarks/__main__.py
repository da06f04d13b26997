"""`python -m benchmarks [NAME ...] [OPTION ...]`: run the named benchmarks, each with the options; or list them all."""

import ast
import re
import runpy
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_NOT_BENCHMARKS = {"__init__", "__main__", "machine", "cluster", "generated_load", "transfer_load", "pulsar_jvm"}


def benchmarks() -> dict[str, Path]:
    """Return the file of each benchmark by its name, in the order of names."""
    files = [*_HERE.glob("*.py"), *_HERE.glob("*/__main__.py")]
    named = {(file.parent if file.stem == "__main__" and file.parent != _HERE else file).stem: file for file in files}
    return {name: named[name] for name in sorted(named) if name not in _NOT_BENCHMARKS}


def listed() -> str:
    """Return what there is, a line each: the name, and what is measured as the file says it, without its command."""
    found = benchmarks()
    width = max(map(len, found))
    lines = [f"{name:{width}}  {_measured(file)}" for name, file in found.items()]
    how = 'Run one by make bench ARGS="NAME [OPTION ...]"; --help tells its options, where it has any.'
    return "\n".join((*lines, "", how))


def _measured(file: Path) -> str:
    first = (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]
    text = re.sub(r"^`python [^`]*`: |: `python [^`]*`", "", first)
    return text[:1].upper() + text[1:]


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments:
        print(listed())
        return
    first_option = next((at for at, text in enumerate(arguments) if text.startswith("-")), len(arguments))
    chosen, options = arguments[:first_option], arguments[first_option:]
    names = benchmarks()
    unknown = sorted(set(chosen) - set(names))
    if unknown or not chosen:
        sys.exit(f"{'no benchmark named ' + unknown[0] + '; ' if unknown else ''}choose from: {', '.join(names)}")
    for name in chosen:
        sys.argv = [name, *options]
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")


if __name__ == "__main__":
    main()
