"""Class paths from Maven Central: Apache Pulsar, and the libraries for the Hadoop of the installed pyspark."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import pyspark

SPARK_JARS: Final = Path(pyspark.__file__).parent / "jars"

_TIMEOUT_S: Final = 600
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
# a repository that a parent of Pulsar's names and that holds nothing needed here
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>barycenter</groupId><artifactId>tests</artifactId><version>1</version>
<repositories><repository><id>confluent</id><url>file:///nowhere</url><releases><enabled>false</enabled></releases>
<snapshots><enabled>false</enabled></snapshots></repository></repositories>
<dependencyManagement><dependencies>{managed}</dependencies></dependencyManagement>
<dependencies>{dependencies}</dependencies>
</project>
"""
_COPY_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>barycenter</groupId><artifactId>tests</artifactId><version>1</version>
<build><plugins><plugin><artifactId>maven-dependency-plugin</artifactId>
<configuration><artifactItems>{items}</artifactItems></configuration></plugin></plugins></build>
</project>
"""


class PeerUnavailableError(RuntimeError):
    """The peer for a comparison is not available here; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """One artifact, `group:name`, with its dependencies except those that `without` names, as `group:name` with
    stars."""

    artifact: str
    version: str
    without: tuple[str, ...] = ()

    def xml(self, more: str = "") -> str:
        exclusions = "".join(f"<exclusion>{_named(each)}</exclusion>" for each in self.without)
        version = f"<version>{escape(self.version)}</version>{more}"
        return f"<dependency>{_named(self.artifact)}{version}<exclusions>{exclusions}</exclusions></dependency>"


def _named(artifact: str) -> str:
    group, name = artifact.split(":")
    return f"<groupId>{escape(group)}</groupId><artifactId>{escape(name)}</artifactId>"


def default_cache() -> Path:
    """Return the folder of resolved artifacts and compiled classes, kept from run to run."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "barycenter" / "peer"


def hadoop_version() -> str:
    """The version of Hadoop in the installed pyspark."""
    return next(SPARK_JARS.glob("hadoop-client-api-*.jar")).stem.removeprefix("hadoop-client-api-")


def tool(name: str) -> str:
    """Return the path of a program.

    Raises:
        PeerUnavailableError: it is not on the PATH.
    """
    found = shutil.which(name)
    if found is None:
        raise PeerUnavailableError(
            f"{name} is not on the PATH; the peer suite needs Maven, a JDK from 17 on and openssl"
        )
    return found


def class_path(*dependencies: Dependency, versions_of: Dependency | None = None, is_final: bool = True) -> list[str]:
    """Return the jars of `dependencies`, in the versions that the parent project `versions_of` was built with, if
    given.

    Maven is called once and its answer kept, unless it is not `is_final`.

    Raises:
        PeerUnavailableError: there is no Maven, or no network and no earlier answer.
    """
    maven = tool("mvn")
    managed = versions_of.xml("<type>pom</type><scope>import</scope>") if versions_of else ""
    pom = _POM.format(managed=managed, dependencies="".join(each.xml() for each in dependencies))
    with _alone(default_cache()) as cache:
        kept = cache / f"class-path-{hashlib.sha256(pom.encode()).hexdigest()[:16]}.json"
        if is_final and kept.exists():
            jars: list[str] = json.loads(kept.read_text())
            if all(Path(jar).exists() for jar in jars):
                return jars
        try:
            jars = _asked(maven, pom, cache)
        except PeerUnavailableError as error:
            names = ", ".join(each.artifact for each in dependencies)
            raise PeerUnavailableError(f"Maven could not resolve {names}: {error}") from error
        kept.write_text(json.dumps(jars))
        return jars


def single_jar(artifact: str, version: str) -> str:
    """Return one jar without its dependencies, and without its parent project, which may not be published.

    Raises:
        PeerUnavailableError: there is no Maven, or no network and the jar is not in the cache.
    """
    maven = tool("mvn")
    group, name = artifact.split(":")
    with _alone(default_cache()) as cache:
        repository = cache / "repository"
        jar = repository.joinpath(*group.split("."), name, version, f"{name}-{version}.jar")
        if not jar.exists():
            asked = [f"-Dartifact={artifact}:{version}", "-Dtransitive=false"]
            _run([maven, "-q", "-B", f"-Dmaven.repo.local={repository}", "dependency:get", *asked])
        return str(jar)


def single_jars(*dependencies: Dependency) -> list[str]:
    """Return one jar each, without what these depend on, and without reading any of their parent projects.

    Raises:
        PeerUnavailableError: there is no Maven, or no network and a jar is not in the cache.
    """
    maven = tool("mvn")
    with _alone(default_cache()) as cache:
        repository = cache / "repository"
        jars = [_jar_in(repository, each) for each in dependencies]
        if not all(jar.exists() for jar in jars):
            items = "".join(f"<artifactItem>{each.xml()[12:-13]}</artifactItem>" for each in dependencies)
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                file = Path(folder) / "pom.xml"
                file.write_text(_COPY_POM.format(items=re.sub("<exclusions>.*?</exclusions>", "", items)))
                options = [f"-Dmaven.repo.local={repository}", f"-DoutputDirectory={folder}/jars"]
                _run([maven, "-q", "-B", "-f", str(file), *options, "dependency:copy"])
        return [str(jar) for jar in jars]


def _jar_in(repository: Path, dependency: Dependency) -> Path:
    group, name = dependency.artifact.split(":")
    version = dependency.version
    return repository.joinpath(*group.split("."), name, version, f"{name}-{version}.jar")


@contextmanager
def _alone(cache: Path) -> Iterator[Path]:
    """Lock the cache: Maven does not expect another process in its repository."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield cache


def _asked(maven: str, pom: str, cache: Path) -> list[str]:
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        file, answer = Path(folder) / "pom.xml", Path(folder) / "class-path"
        file.write_text(pom)
        command = [maven, "-q", "-B", "-f", str(file), f"-Dmaven.repo.local={cache / 'repository'}"]
        command += ["dependency:build-classpath", f"-Dmdep.outputFile={answer}"]
        _run(command)
        return answer.read_text().strip().split(os.pathsep)


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise PeerUnavailableError(f"it did not come to an end within {_TIMEOUT_S} s") from None
    if done.returncode:
        lines = [line for line in _COLOUR.sub("", done.stdout + done.stderr).splitlines() if line.strip()]
        raise PeerUnavailableError(lines[0] if lines else "it does not say why")


def java_of(least: int) -> tuple[str, str]:
    """Return `java` and `javac` of a JDK of at least that release, from JAVA_HOME, the PATH, or the system's folder.

    Raises:
        PeerUnavailableError: there is none.
    """
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    homes += [Path(found).resolve().parents[1] for found in [shutil.which("javac")] if found]
    homes += sorted(Path("/usr/lib/jvm").glob("*"))
    for home in homes:
        java, javac, told = home / "bin" / "java", home / "bin" / "javac", home / "release"
        release = re.search(r'JAVA_VERSION="(\d+)', told.read_text()) if told.exists() else None
        if release and int(release[1]) >= least and java.exists() and javac.exists():
            return str(java), str(javac)
    raise PeerUnavailableError(f"there is no JDK from {least} on (JAVA_HOME, PATH and /usr/lib/jvm were looked at)")


def java_command(source: Path, jars: Sequence[str], *options: str) -> list[str]:
    """The command that compiles and runs one file of Java.

    Raises:
        PeerUnavailableError: there is no JDK.
    """
    tool("javac")
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    return [tool("java"), *quick, *options, "-cp", os.pathsep.join(jars), str(source)]
