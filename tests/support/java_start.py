"""How Java starts for Spark in tests: as in the product, with an archive of Spark's classes in build/."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final

from pulsar_barycenter.pipeline.running.archive_making import CannotMakeError
from pulsar_barycenter.pipeline.running.archive_making import make_archive as make
from pulsar_barycenter.pipeline.spark.class_archive import SWITCH, archive_of
from pulsar_barycenter.pipeline.spark.java import find_java, packaged_java
from pulsar_barycenter.pipeline.spark.java_cache import CACHE_VARIABLE, open_cache
from pulsar_barycenter.pipeline.spark.java_options import EXTRA_OPTIONS, Compilers

_CACHE: Final = Path(__file__).parents[2] / "build" / "cache"
_BRIEF: Final = " ".join(Compilers.FIRST.value)
"""No Spark of a test lives long enough to earn what the second compiler does."""


def set_environment() -> None:
    """Make every Spark that a test starts, in this process or another, start fast and find its cache in build/."""
    os.environ.setdefault(CACHE_VARIABLE, str(_CACHE))
    os.environ.setdefault(SWITCH, "use")  # no test shall leave a process that makes it
    arguments = f"--conf {shlex.quote(f'{EXTRA_OPTIONS}={_BRIEF}')} pyspark-shell"
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", arguments)


def java_options() -> str:
    """Return options for a Java that runs Spark's classes and that the product does not start."""
    cache = open_cache(os.environ)
    archive = archive_of(find_java(os.environ, cache=cache.folder, packaged=packaged_java()), cache)
    return " ".join((_BRIEF, *archive.options()))


def make_archive() -> None:
    """Make the archive unless it exists; takes the time of several starts, once per installed Java and pyspark."""
    with suppress(CannotMakeError):
        make(os.environ)
