"""The archive of Spark's classes: what Java read and checked once, which later starts map into memory.

Most of what a start costs is reading and checking some ten thousand classes. Java (application class data sharing)
writes what came of it to a file that fits one build of Java and one list of jars, and checks both when it starts; with
any other it reads the classes as ever. `running.archive_making` makes it.

An archive is a folder `classes-<key>` of the cache with `spark.jsa`. It stands on an archive of Java's own classes,
`classes-<key>.java.jsa` beside it if Java itself came without one, whose path it holds. Java looks at the checksums of
both, so a damaged one is left alone; but it dies of one that is cut short, so `sizes` holds how long they are.
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
"""`off`: no archive is used, and none made unless somebody asks for it. `use`: one that is there is used."""
VERSIONS: Final = (17, 21)
"""Of Java, with which it was tried."""
MOST_ARCHIVES: Final = 3
MOST_BYTES: Final = 1 << 30
_FORM: Final = "1"
"""To be changed with what `running.class_training` uses of Spark: archives of before are then made anew."""
_SPARK: Final = "spark.jsa"
_JAVA: Final = ".java.jsa"
_SIZES: Final = "sizes"
_FAILED: Final = ".failed"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one Java and one PySpark in `folder`, be it there or not."""

    folder: Path
    java: Java

    @property
    def own_base(self) -> Path | None:
        """The archive of Java's own classes, if it lies here; None if Java brings it."""
        return (
            None if (self.java.runtime / "lib" / "server" / "classes.jsa").exists() else self.folder.with_suffix(_JAVA)
        )

    @property
    def file(self) -> Path:
        return self.folder / _SPARK

    def is_there(self) -> bool:
        """Say whether it can be used: all of it is there, and nobody but this user and root could have written it."""
        try:
            if (self.folder / _SIZES).read_text() != self._sizes(self.file):
                return False
            return all(stat.S_ISREG(file.lstat().st_mode) and writable_by_others(file) is None for file in self.files())
        except OSError:
            return False

    def files(self) -> list[Path]:
        """Return its files as Java names them, the one below first."""
        return [*([self.own_base] if self.own_base else []), self.file]

    def take(self, made: Path) -> None:
        """Have the folder `made`, with the finished file in it, as this archive, in the place of one that is there."""
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
        """Options by which Java uses it; a file that does not fit or is damaged is left alone without a word."""
        return (
            f"-XX:SharedArchiveFile={os.pathsep.join(map(str, self.files()))}",
            "-XX:+VerifySharedSpaces",
            "-Xlog:cds*=off",
        )

    def note_use(self) -> None:
        """Remember that it was used now: those used last are kept."""
        with suppress(OSError):
            os.utime(self.folder)

    def note_failure(self) -> None:
        """Remember that it could not be made or used, so that not every start tries again."""
        with suppress(OSError):
            self.folder.with_suffix(_FAILED).touch()

    def forget_failure(self) -> None:
        self.folder.with_suffix(_FAILED).unlink(missing_ok=True)

    def has_failed(self) -> bool:
        return self.folder.with_suffix(_FAILED).exists()

    def remove(self) -> None:
        remove(self.folder)


def archive_of(java: Java, cache: JavaCache) -> ClassArchive:
    """Return the archive of this Java and the installed PySpark: another build of either has another one."""
    digest = hashlib.sha256(f"{_FORM} {java.runtime}\n".encode())
    for path in _made_from(java.runtime):
        with suppress(OSError):
            found = path.stat()
            digest.update(f"{path} {found.st_size} {found.st_mtime_ns}\n".encode())
    return ClassArchive(cache.folder / f"classes-{digest.hexdigest()[:16]}", java)


def hindrance(java: Java, cache: JavaCache, environment: Mapping[str, str]) -> str | None:
    """Return why there can be no archive, in words; None if there can."""
    if cache.hindrance is not None:
        return cache.hindrance
    if java.version not in VERSIONS:
        return f"it was tried with Java {' and '.join(map(str, VERSIONS))}, and this is Java {java.version}"
    if environment.get("SPARK_CONF_DIR"):
        return "SPARK_CONF_DIR puts a folder before the jars on the class path, which Java's archives cannot have"
    home = environment.get("SPARK_HOME")
    if home and Path(home).resolve() != spark_home().resolve():
        return f"SPARK_HOME names another Spark than that of this Python, {home}"
    return None


def archives_in(folder: Path) -> list[Path]:
    """Return the folders of the archives in the cache, that used last first."""
    with suppress(OSError):
        found = [each for each in folder.glob("classes-*") if each.is_dir()]
        return sorted(found, key=lambda each: each.stat().st_mtime_ns, reverse=True)
    return []


def size_of(archive: Path) -> int:
    """Bytes on disk."""
    total = 0
    with suppress(OSError):
        total += sum(file.stat().st_size for file in archive.iterdir())
        total += archive.with_suffix(_JAVA).stat().st_size
    return total


def remove(archive: Path) -> None:
    """Remove the archive in this folder and what it stands on. A Java that has mapped it goes on with it."""
    shutil.rmtree(archive, ignore_errors=True)
    with suppress(OSError):
        archive.with_suffix(_JAVA).unlink()


def keep_within_bounds(folder: Path) -> None:
    """Remove the archives used longest ago, so that at most MOST_ARCHIVES of at most MOST_BYTES together stay.

    The one used last stays, whatever its size.
    """
    total = 0
    for place, archive in enumerate(archives_in(folder)):
        total += size_of(archive)
        if place and (place >= MOST_ARCHIVES or total > MOST_BYTES):
            remove(archive)


def remove_all(folder: Path) -> int:
    """Remove every archive and what is remembered of failures; return how many bytes that gave back."""
    freed = 0
    for archive in archives_in(folder):
        freed += size_of(archive)
        remove(archive)
    for left in (*folder.glob(f"classes-*{_FAILED}"), *folder.glob(f"classes-*{_JAVA}")):
        left.unlink(missing_ok=True)
    return freed


def spark_home() -> Path:
    """The folder of the installed PySpark, whose `jars` Java runs.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("PySpark is not installed", name="pyspark")
    return Path(spec.origin).parent


def _made_from(runtime: Path) -> Iterator[Path]:
    yield from (runtime / part for part in ("release", "lib/modules", "lib/server/libjvm.so", "lib/server/classes.jsa"))
    yield from sorted((spark_home() / "jars").iterdir())
