"""Creates the archive of Spark's classes: `python -m pulsar_barycenter.pipeline.running.archive_making`.

A separate Java process runs the workload of `class_training`, and writes the loaded classes when it ends. The archive
is created in a folder next to its final path and then renamed, so that a process that starts meanwhile finds a complete
archive or none. Only one process at a time creates an archive.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pulsar_barycenter.pipeline.spark.class_archive import (
    MOST_BYTES,
    SWITCH,
    ClassArchive,
    archive_of,
    hindrance,
    keep_within_bounds,
)
from pulsar_barycenter.pipeline.spark.java import JavaNotFoundError, find_java, packaged_java
from pulsar_barycenter.pipeline.spark.java_cache import JavaCache, open_cache

_TRAINING: Final = "pulsar_barycenter.pipeline.running.class_training"
_TIMEOUT_S: Final = 900.0
_UNFINISHED: Final = ".making-"
_NOT_FOR_TRAINING: Final = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
)


class CannotMakeError(RuntimeError):
    """There is no archive of Spark's Java classes (with which Java starts faster), and it cannot be created. The text
    says why.
    """


def make_archive(environment: Mapping[str, str]) -> ClassArchive:
    """Return the archive of Spark's classes for the Java that `environment` selects. If the archive is missing, create
    it first.

    While another process creates an archive, this waits without a time limit. Creation takes about as long as three
    starts of Spark. Afterwards, the archives that were used longest ago are deleted if all archives together take too
    much space.

    Raises:
        CannotMakeError: an archive cannot be used on this machine, or Java did not create it.
        JavaNotFoundError: no Java was found.
    """
    cache = open_cache(environment)
    java = find_java(environment, cache=cache.folder, packaged=packaged_java())
    why_not = hindrance(java, cache, environment)
    if why_not is not None:
        raise CannotMakeError(why_not)
    archive = archive_of(java, cache)
    if archive.is_there():
        return archive
    with _alone(cache) as folder:
        if not archive.is_there():
            try:
                _make(archive, folder, environment)
            except (OSError, subprocess.SubprocessError, CannotMakeError) as error:
                archive.remove()
                archive.note_failure()
                raise CannotMakeError(str(error)) from error
            keep_within_bounds(cache.folder)
    return archive


@contextmanager
def _alone(cache: JavaCache) -> Iterator[Path]:
    """Wait until no other process creates an archive, then yield an empty folder for a new archive; it is deleted when
    the block ends. Folders that killed processes left are deleted as well.

    Raises:
        CannotMakeError: too little disk space is free.
    """
    with (cache.folder / "making.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in cache.folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)
        if shutil.disk_usage(cache.folder).free < MOST_BYTES:
            raise CannotMakeError(
                f"less than {MOST_BYTES >> 30} GiB is free at {cache.folder}, and an archive of classes needs that"
                " much; free disk space there"
            )
        with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=cache.folder) as made:  # with mode 0700
            yield Path(made)


def _make(archive: ClassArchive, folder: Path, environment: Mapping[str, str]) -> None:
    making = folder / "archive"
    making.mkdir(mode=0o700)
    file = making / archive.file.name
    options = [f"-XX:ArchiveClassesAtExit={file}", "-Xlog:cds*=off"]
    if archive.own_base is not None:  # moved to its final path first, because the other archive contains this path
        base = making / archive.own_base.name
        _run(
            [str(archive.java.home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={base}"],
            environment,
            base,
        )
        base.chmod(0o400)
        base.replace(archive.own_base)
        options.insert(0, f"-XX:SharedArchiveFile={archive.own_base}")
    training = {name: value for name, value in environment.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    training |= {SWITCH: "off", "TMPDIR": str(folder)}
    _run([sys.executable, "-m", _TRAINING, str(folder / "data"), *options], training, file)
    archive.take(making)


def _run(command: list[str], environment: Mapping[str, str], result: Path) -> None:
    """Run `command`, which must create the file `result`.

    Raises:
        CannotMakeError: the command failed, or did not create the file.
        subprocess.TimeoutExpired: the command did not end in time.
    """
    kept = {name: value for name, value in environment.items() if name not in _NOT_FOR_TRAINING}
    ran = subprocess.run(  # noqa: S603 - the Java of this user, and this Python
        command,
        env=kept,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_TIMEOUT_S,
        check=False,
    )
    if ran.returncode != 0 or not result.exists():
        said = [line for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]
        raise CannotMakeError(
            f"Java did not create {result.name} (exit code {ran.returncode}): {' '.join(said[-3:])[-500:]}"
        )


def main() -> None:
    """Create the archive of Spark's classes if it is missing, with the lowest priority and without output. The process
    exits with 1 if it cannot be created.
    """
    os.nice(19)
    try:
        make_archive(os.environ)
    except (CannotMakeError, JavaNotFoundError, OSError):
        sys.exit(1)


if __name__ == "__main__":
    main()
