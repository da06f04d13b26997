"""The archive of Spark's classes: classes that Java loaded and verified once, and that later starts map into memory.

Most of the time of a start goes into loading and verifying about ten thousand classes. Java can write the result to a
file (application class data sharing). The file fits one build of Java and one list of jars. Java checks both when it
starts, and loads the classes as usual if they differ. `running.archive_making` makes the archive.

An archive is a folder `classes-<key>` in the cache, with the file `spark.jsa`. It builds on an archive of Java's own
classes and contains its path. If Java has none, that archive is the file `classes-<key>.java.jsa` in the cache. Java
checks the checksums of both and ignores a damaged archive. But a truncated archive makes Java crash, so the file
`sizes` has their sizes.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pulsar_barycenter.pipeline.spark.java import Java
from pulsar_barycenter.pipeline.spark.java_cache import JavaCache, writable_by_others

SWITCH: Final = "BARYCENTER_CLASS_ARCHIVE"
"""`off`: no archive is used, and one is made only on request. `use`: an existing archive is used, and none is made."""
VERSIONS: Final = (17, 21)
"""The versions of Java with which the archive was tested."""
MOST_ARCHIVES: Final = 3
MOST_BYTES: Final = 1 << 30
_FORM: Final = "1"
"""Change this when `running.class_training` uses other parts of Spark: existing archives are then made again."""
_SPARK: Final = "spark.jsa"
_JAVA: Final = ".java.jsa"
_SIZES: Final = "sizes"
_FAILED: Final = ".failed"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """An archive of Spark's Java classes, made for one Java and one PySpark, with which Java starts faster. `folder` is
    where the archive is, or would be: it does not have to exist.
    """

    folder: Path
    java: Java

    @property
    def own_base(self) -> Path | None:
        """The path of the archive of Java's own classes, on which this archive builds. It is in the cache; None: Java
        was installed with such an archive, which is used.
        """
        return (
            None if (self.java.runtime / "lib" / "server" / "classes.jsa").exists() else self.folder.with_suffix(_JAVA)
        )

    @property
    def file(self) -> Path:
        return self.folder / _SPARK

    def is_there(self) -> bool:
        """Return whether the archive can be used: it is complete, and no user except this one and root could have
        written it.
        """
        try:
            if (self.folder / _SIZES).read_text() != self._sizes(self.file):
                return False
            return all(stat.S_ISREG(file.lstat().st_mode) and writable_by_others(file) is None for file in self.files())
        except OSError:
            return False

    def files(self) -> list[Path]:
        """Return the files of the archive in the order in which Java needs them: first the archive of Java's own
        classes, if that is a separate file in the cache.
        """
        return [*([self.own_base] if self.own_base else []), self.file]

    def take(self, made: Path) -> None:
        """Move the folder `made`, which has a finished archive, to `folder`. An archive that is there is replaced. A
        record of an earlier failure is deleted.
        """
        file = made / _SPARK
        file.chmod(0o400)
        (made / _SIZES).write_text(self._sizes(file))
        shutil.rmtree(self.folder, ignore_errors=True)
        made.rename(self.folder)
        self.forget_failure()

    def _sizes(self, file: Path) -> str:
        parts = [*([self.own_base] if self.own_base else []), file]
        return "".join(f"{part.name} {part.stat().st_size}\n" for part in parts)

    def options(self) -> tuple[str, ...]:
        """Return the command-line options of Java with which it uses the archive.

        If a file of the archive is damaged or does not fit this Java, Java starts without it and prints no message.
        """
        return (
            f"-XX:SharedArchiveFile={os.pathsep.join(map(str, self.files()))}",
            "-XX:+VerifySharedSpaces",
            "-Xlog:cds*=off",
        )

    def note_use(self) -> None:
        """Record that the archive was used at this time. Archives that were not used for long are deleted first."""
        with suppress(OSError):
            os.utime(self.folder)

    def note_failure(self) -> None:
        """Record that the archive could not be created or used. While this record exists, a start of Java does not
        begin to create the archive. The command `barycenter pipeline prepare` still creates it, which deletes the
        record.
        """
        with suppress(OSError):
            self.folder.with_suffix(_FAILED).touch()

    def forget_failure(self) -> None:
        self.folder.with_suffix(_FAILED).unlink(missing_ok=True)

    def has_failed(self) -> bool:
        return self.folder.with_suffix(_FAILED).exists()

    def remove(self) -> None:
        remove(self.folder)


def archive_of(java: Java, cache: JavaCache) -> ClassArchive:
    """Return the archive for this Java and the installed PySpark. If another version of either is installed, the result
    is another archive.
    """
    digest = hashlib.sha256(f"{_FORM} {java.runtime}\n".encode())
    for path in _made_from(java.runtime):
        with suppress(OSError):
            found = path.stat()
            digest.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode())
    return ClassArchive(cache.folder / f"classes-{digest.hexdigest()[:16]}", java)


def hindrance(java: Java, cache: JavaCache, environment: Mapping[str, str]) -> str | None:
    """Return why no archive of classes can be used with this Java and these settings; None if one can be used."""
    if cache.hindrance is not None:
        return cache.hindrance
    if java.version not in VERSIONS:
        return f"it is supported with Java {' and '.join(map(str, VERSIONS))}, and this is Java {java.version}"
    if environment.get("SPARK_CONF_DIR"):
        return "SPARK_CONF_DIR puts a folder before the jars on the class path, which Java's archives cannot have"
    home = environment.get("SPARK_HOME")
    if home and Path(home).resolve() != spark_home().resolve():
        return f"SPARK_HOME is {home}, which is not the Spark of this Python"
    return None


def archives_in(folder: Path) -> list[Path]:
    """Return the folders of all archives in the cache folder `folder`, the most recently used one first."""
    with suppress(OSError):
        found = [each for each in folder.glob("classes-*") if each.is_dir()]
        return sorted(found, key=lambda each: each.stat().st_mtime_ns, reverse=True)
    return []


def size_of(archive: Path) -> int:
    """Return the size of an archive on the disk, in bytes."""
    total = 0
    with suppress(OSError):
        total += sum(file.stat().st_size for file in archive.iterdir())
        total += archive.with_suffix(_JAVA).stat().st_size
    return total


def remove(archive: Path) -> None:
    """Remove the archive in the folder `archive`, and the archive of Java's own classes on which it builds. A Java
    process that uses them at this time is not affected.
    """
    shutil.rmtree(archive, ignore_errors=True)
    with suppress(OSError):
        archive.with_suffix(_JAVA).unlink()


def keep_within_bounds(folder: Path) -> None:
    """Remove the archives that were used longest ago, so that at most MOST_ARCHIVES stay, with at most MOST_BYTES
    together.

    The archive that was used last stays, whatever its size.
    """
    total = 0
    for place, archive in enumerate(archives_in(folder)):
        total += size_of(archive)
        if place and (place >= MOST_ARCHIVES or total > MOST_BYTES):
            remove(archive)


def remove_all(folder: Path) -> int:
    """Remove all archives, and all records of failures, in the cache folder `folder`. Return how many bytes this
    freed.
    """
    freed = 0
    for archive in archives_in(folder):
        freed += size_of(archive)
        remove(archive)
    for left in (*folder.glob(f"classes-*{_FAILED}"), *folder.glob(f"classes-*{_JAVA}")):
        left.unlink(missing_ok=True)
    return freed


def spark_home() -> Path:
    """Return the folder of the installed PySpark. Its subfolder `jars` has Spark's Java classes.

    Raises:
        ModuleNotFoundError: PySpark is not installed.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("PySpark is not installed", name="pyspark")
    return Path(spec.origin).parent


def _made_from(runtime: Path) -> Iterator[Path]:
    yield from (runtime / part for part in ("release", "lib/modules", "lib/server/libjvm.so", "lib/server/classes.jsa"))
    yield from sorted((spark_home() / "jars").iterdir())
