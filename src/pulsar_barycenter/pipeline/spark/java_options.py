"""Chooses the options with which Java starts. Options of the user follow those of this program, and override them.

If the user sets a garbage collector, a compiler or class data, this program leaves out its own options of that kind,
because Java refuses some combinations. Options of the user reach Java through JAVA_TOOL_OPTIONS, JDK_JAVA_OPTIONS or
_JAVA_OPTIONS, through Spark's settings, or through PYSPARK_SUBMIT_ARGS.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

DEFAULT_OPTIONS: Final = "spark.driver.defaultJavaOptions"
"""Spark puts these options before `spark.driver.extraJavaOptions`, so those override them."""
EXTRA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "PYSPARK_SUBMIT_ARGS")

_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC\b")
_COMPILER: Final = re.compile(r"-XX:(TieredStopAtLevel|[+-]TieredCompilation|ReservedCodeCacheSize)|-Xint\b|-Xcomp\b")
_CLASS_DATA: Final = re.compile(
    r"-Xshare:|-XX:(SharedArchiveFile|ArchiveClassesAtExit|[+-]AutoCreateSharedArchive|DumpLoadedClassList|AOT\w+)"
)

SMALL_WORK_BYTES: Final = 32 << 20
"""A job that reads at most this many bytes uses the first compiler only. An estimate, not measured."""


class Compilers(Enum):
    """Which of Java's two compilers are used. `FIRST`: only the first one, whose code is ready soon but runs slower.
    `BOTH`: both, which is better for long work.
    """

    # With the first compiler alone, Java reserves 48 MB for code. When that is full, it drops code and compiles again.
    FIRST = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
    BOTH = ()

    @classmethod
    def for_bytes(cls, size: int | None) -> "Compilers":
        """Return which compilers suit a job that reads `size` bytes and then ends: FIRST for little work, otherwise
        BOTH. If `size` is None (unknown), return BOTH.
        """
        return cls.FIRST if size is not None and size <= SMALL_WORK_BYTES else cls.BOTH


@dataclass(frozen=True, slots=True)
class JavaOptions:
    """Options for the start of Java. `needed` are always used. `quick` only make the start faster: Java is started
    again without them if it fails.
    """

    needed: tuple[str, ...]
    quick: tuple[str, ...]


def own_options(log_settings: str, compilers: Compilers, class_data: Sequence[str], given: str) -> JavaOptions:
    """Return those of this program's own options for Java that do not conflict with `given`, the text of all options of
    the user.

    `log_settings` is the URL of Java's log settings. `class_data` are the options with which Java uses an archive of
    classes.
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
    """Return all texts in which a user may have given options for Java, joined by spaces: from variables of
    `environment`, and from `settings`, the settings of Spark.
    """
    texts = [environment.get(name, "") for name in _VARIABLES]
    return " ".join((*texts, settings.get(DEFAULT_OPTIONS, ""), settings.get(EXTRA_OPTIONS, "")))


def settings_of_file(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in `spark-defaults.conf`, which is in SPARK_CONF_DIR, or if that is not set in `conf` of
    SPARK_HOME. Empty if neither is set or the file cannot be read.
    """
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
