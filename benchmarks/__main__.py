"""`python -m benchmarks [NAME ...] [OPTION ...]`: run the named benchmarks, each with the options, or list them."""

import runpy
import sys
from pathlib import Path

_NOT_BENCHMARKS = {"__init__", "__main__", "machine", "cluster", "generated_load", "transfer_load", "pulsar_jvm"}


def main() -> None:
    here = Path(__file__).parent
    files = [*here.glob("*.py"), *(main.parent for main in here.glob("*/__main__.py"))]
    names = sorted(file.stem for file in files if file.stem not in _NOT_BENCHMARKS)
    arguments = sys.argv[1:]
    first_option = next((at for at, text in enumerate(arguments) if text.startswith("-")), len(arguments))
    chosen, options = arguments[:first_option], arguments[first_option:]
    unknown = sorted(set(chosen) - set(names))
    if unknown or not chosen:
        sys.exit(f"{'no benchmark named ' + unknown[0] + '; ' if unknown else ''}choose from: {', '.join(names)}")
    for name in chosen:
        sys.argv = [name, *options]
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")


if __name__ == "__main__":
    main()
