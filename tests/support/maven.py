"""Class paths from Maven Central, for servers and connectors beside the Hadoop of the installed pyspark."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import pyspark

from support.pulsar_peer import PeerUnavailableError, default_cache

SPARK_JARS: Final = Path(pyspark.__file__).parent / "jars"

_TIMEOUT_S: Final = 600
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>barycenter</groupId><artifactId>servers</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies>
</project>
"""


@dataclass(frozen=True, slots=True)
class Dependency:
    """One artifact, `group:name`, with what it needs; of that, not what `without` names, as `group:name` with stars."""

    artifact: str
    version: str
    without: tuple[str, ...] = ()

    def xml(self) -> str:
        exclusions = "".join(f"<exclusion>{_named(each)}</exclusion>" for each in self.without)
        version = f"<version>{escape(self.version)}</version>"
        return f"<dependency>{_named(self.artifact)}{version}<exclusions>{exclusions}</exclusions></dependency>"


def _named(artifact: str) -> str:
    group, name = artifact.split(":")
    return f"<groupId>{escape(group)}</groupId><artifactId>{escape(name)}</artifactId>"


def hadoop_version() -> str:
    """The version of Hadoop that the installed pyspark brings."""
    return next(SPARK_JARS.glob("hadoop-client-api-*.jar")).stem.removeprefix("hadoop-client-api-")


def java_tool(name: str) -> str:
    """Return the path of a program of the JDK, or of Maven.

    Raises:
        PeerUnavailableError: it is not on the PATH.
    """
    found = shutil.which(name)
    if found is None:
        raise PeerUnavailableError(f"{name} is not on the PATH; the peer suite needs Maven and a JDK, 17 or newer")
    return found


def class_path(*dependencies: Dependency) -> list[str]:
    """Return the jars of `dependencies`, all of fixed versions; Maven is asked once and its answer kept.

    Raises:
        PeerUnavailableError: there is no Maven, or no network and no earlier answer.
    """
    maven = java_tool("mvn")
    pom = _POM.format(dependencies="".join(each.xml() for each in dependencies))
    cache = default_cache() / "servers"  # of its own: Maven does not expect another one in its repository
    kept = cache / f"class-path-{hashlib.sha256(pom.encode()).hexdigest()[:16]}.json"
    jars: list[str] = json.loads(kept.read_text()) if kept.exists() else []
    if jars and all(Path(jar).exists() for jar in jars):
        return jars
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        file, answer, fresh = (Path(folder) / name for name in ("pom.xml", "class-path", "answer.json"))
        file.write_text(pom)
        command = [maven, "-q", "-B", "-f", str(file), f"-Dmaven.repo.local={cache / 'repository'}"]
        command += ["dependency:build-classpath", f"-Dmdep.outputFile={answer}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise PeerUnavailableError(f"Maven did not come to an end within {_TIMEOUT_S} s") from None
        if done.returncode:
            lines = [line for line in _COLOUR.sub("", done.stdout + done.stderr).splitlines() if line.strip()]
            names = ", ".join(each.artifact for each in dependencies)
            raise PeerUnavailableError(f"Maven could not resolve {names}: {lines[0] if lines else ''}")
        jars = answer.read_text().strip().split(os.pathsep)
        fresh.write_text(json.dumps(jars))
        fresh.replace(kept)
    return jars


def java_command(source: Path, jars: Sequence[str], *options: str) -> list[str]:
    """The command that compiles and runs one file of Java.

    Raises:
        PeerUnavailableError: there is no JDK.
    """
    java_tool("javac")
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    return [java_tool("java"), *quick, *options, "-cp", os.pathsep.join(jars), str(source)]
