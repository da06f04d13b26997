"""With which options Java starts: those of this program first, those of the user after them and instead of them.

What the user says of a collector, of compilers or of class data replaces what would be said here, because Java refuses
some pairs and the user knows better. An option of the user reaches Java through JAVA_TOOL_OPTIONS, JDK_JAVA_OPTIONS or
_JAVA_OPTIONS, through Spark's settings, or through PYSPARK_SUBMIT_ARGS.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

DEFAULT_OPTIONS: Final = "spark.driver.defaultJavaOptions"
"""Spark puts these before `spark.driver.extraJavaOptions`, so that the latter win."""
EXTRA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "PYSPARK_SUBMIT_ARGS")

_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC\b")
_COMPILER: Final = re.compile(r"-XX:(TieredStopAtLevel|[+-]TieredCompilation|ReservedCodeCacheSize)|-Xint\b|-Xcomp\b")
_CLASS_DATA: Final = re.compile(
    r"-Xshare:|-XX:(SharedArchiveFile|ArchiveClassesAtExit|[+-]AutoCreateSharedArchive|DumpLoadedClassList|AOT\w+)"
)

SMALL_WORK_BYTES: Final = 32 << 20
"""Up to this much to read the first compiler alone is taken: an estimate, not measured."""


class Compilers(Enum):
    """Which of Java's compilers work. `FIRST` alone: the code is ready soon and runs slower. `BOTH`: for hours."""

    # The first alone would get 48 MB for its code; once that is full Java throws code away and compiles it again.
    FIRST = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
    BOTH = ()

    @classmethod
    def for_bytes(cls, size: int | None) -> "Compilers":
        """Return what is cheaper for a job that reads `size` bytes and ends; None is not known."""
        return cls.FIRST if size is not None and size <= SMALL_WORK_BYTES else cls.BOTH


@dataclass(frozen=True, slots=True)
class JavaOptions:
    """`needed` is always there; `quick` makes the start cheaper and can be left out."""

    needed: tuple[str, ...]
    quick: tuple[str, ...]


def own_options(log_settings: str, compilers: Compilers, class_data: Sequence[str], given: str) -> JavaOptions:
    """Return the options of this program that go with `given`, the text of all options of the user.

    `log_settings` is a URL; `class_data` are the options by which Java finds an archive of classes.
    """
    quick: list[str] = []
    if not _COLLECTOR.search(given):
        quick.append("-XX:+UseSerialGC")
    if not _COMPILER.search(given):
        quick += compilers.value
    if not _CLASS_DATA.search(given):
        quick += class_data
    return JavaOptions((f"-Dlog4j2.configurationFile={log_settings}",), tuple(quick))


def given_options(environment: Mapping[str, str], settings: Mapping[str, str]) -> str:
    """Return all text in which a user may have put options for Java; `settings` are those of Spark."""
    texts = [environment.get(name, "") for name in _VARIABLES]
    return " ".join((*texts, settings.get(DEFAULT_OPTIONS, ""), settings.get(EXTRA_OPTIONS, "")))


def settings_of_file(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Spark in `spark-defaults.conf` of SPARK_CONF_DIR, or of SPARK_HOME; without one none."""
    folder, home = environment.get("SPARK_CONF_DIR"), environment.get("SPARK_HOME")
    if not folder and not home:
        return {}
    file = (Path(folder) if folder else Path(str(home)) / "conf") / "spark-defaults.conf"
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (re.split(r"\s*[=:\s]\s*", line.strip(), maxsplit=1) for line in lines if line.strip()[:1] not in ("", "#"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
