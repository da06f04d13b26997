"""Apache Pulsar's own classes in one JVM, for the same questions as ours.

`PulsarPeer.start` resolves `pulsar-broker` of a line of versions with its dependencies, compiles the few classes of
tests/peer/java against it, starts one JVM that ends with this process, and answers batches of cases.

The newest 4.x version is used. For 5.0.1 Maven Central has the jar of the broker, which contains the load managers,
and few of its other jars, so it runs on the libraries of the newest complete 5.x, a milestone. What does not run in
this way is compared with that milestone alone.
"""

import hashlib
import itertools
import math
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from py4j.java_gateway import GatewayParameters, JavaGateway  # type: ignore[import-untyped]

from pulsar_barycenter.config.pulsar_version import VERSIONS, PulsarVersion
from support.maven import (
    SPARK_JARS,
    Dependency,
    PeerUnavailableError,
    class_path,
    default_cache,
    java_of,
    single_jar,
)

T = TypeVar("T")

SOURCES: Final = Path(__file__).parents[1] / "peer" / "java"
BATCH: Final = 500
_REFRESH_AFTER_S: Final = 7 * 86_400
_BROKER: Final = "org.apache.pulsar:pulsar-broker"
_VERSIONS: Final = "[4.0.0,5.0.0-alpha)"
_BROKER_5: Final = "5.0.1"
_LIBRARIES_5: Final = "5.0.0-M1"
_JACKSON_5: Final = Dependency("com.fasterxml.jackson:jackson-bom", "2.21.3")
"""What Pulsar's build takes the versions of; its published parent project does not say so, unlike that of 4.x."""
_JAVA: Final[Mapping[PulsarVersion, int]] = {"4.x": 17, "5.x": 21}
"""From which release of Java on each line runs."""
_MOCKITO: Final = Dependency("org.mockito:mockito-core", "5.20.0")


def newest_that_runs() -> PulsarVersion:
    """Return the newest line for which there is a Java here; the oldest if there is no Java."""
    for line in VERSIONS:
        with suppress(PeerUnavailableError):
            java_of(_JAVA[line])
            return line
    return VERSIONS[-1]


def newest_version() -> str:
    """Return the newest 4.x version of Pulsar; calls Maven when the last answer is a week old.

    Raises:
        PeerUnavailableError: there is no Maven or no network, and no earlier answer either.
    """
    kept = default_cache() / "newest-version"
    if kept.exists() and time.time() - kept.stat().st_mtime < _REFRESH_AFTER_S:
        return kept.read_text()
    try:
        # without its dependencies, or Maven would read those of every version in the range
        (jar,) = class_path(Dependency(_BROKER, _VERSIONS, without=("*:*",)), is_final=False)
    except PeerUnavailableError:
        if not kept.exists():
            raise
        return kept.read_text()
    version = Path(jar).stem.removeprefix("pulsar-broker-")
    kept.write_text(version)
    return version


def resolve_class_path() -> tuple[str, list[str]]:
    """Return the version and the jars of the newest 4.x broker, including Mockito.

    Raises:
        PeerUnavailableError: there is no Maven or no network, and no earlier answer either.
    """
    version = newest_version()
    # Maven alone would take other versions of what the broker depends on than Pulsar was built with.
    parent = Dependency("org.apache.pulsar:pulsar", version)
    return version, class_path(Dependency(_BROKER, version), _MOCKITO, versions_of=parent)


def resolve_class_path_5(*, complete: bool) -> tuple[str, list[str]]:
    """Return the version and the jars of the newest 5.x broker, including Mockito; or of the newest `complete` one.

    Classes that are in no jar of the newest come from the complete one.

    Raises:
        PeerUnavailableError: there is no Maven or no network, and no earlier answer either.
    """
    libraries = class_path(Dependency(_BROKER, _LIBRARIES_5), _MOCKITO, versions_of=_JACKSON_5)
    if complete:
        return _LIBRARIES_5, libraries
    return _BROKER_5, [single_jar(_BROKER, _BROKER_5), *libraries]  # of a class in two jars the first counts


def silent(jars: list[str]) -> list[str]:
    """Return the jars without the one that logs: Pulsar's classes log a line per decision."""
    return [jar for jar in jars if "slf4j2-impl" not in jar]


def compile_sources(joined: str, javac: str) -> Path:
    """Return the folder with the classes of tests/peer/java, compiled unless that was done before."""
    sources = sorted(SOURCES.rglob("*.java"))
    digest = hashlib.sha256(f"{javac} {joined}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    target = default_cache() / "classes" / digest.hexdigest()[:16]
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [javac, "-nowarn", "-Xlint:none", "-proc:none"]
        command += ["-d", f"{folder}/classes", "-cp", joined]
        done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"tests/peer/java does not compile against Pulsar:\n{done.stderr}")
        shutil.move(f"{folder}/classes", target)
    return target


def plain(value: Any) -> Any:
    """Return `value` for a JSON document; numbers that JSON cannot represent become the texts that Jackson accepts."""
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, msgspec.Struct):
        pairs = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return {key: plain(item) for key, name in pairs if (item := getattr(value, name)) not in (None, msgspec.UNSET)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


class PulsarPeer:
    """A JVM with Pulsar's classes; `version` is Pulsar's, of that `line`."""

    def __init__(
        self,
        line: PulsarVersion,
        version: str,
        process: "subprocess.Popen[str]",
        gateway: JavaGateway,
        folder: Path,
    ) -> None:
        self.line = line
        self.version = version
        self._process = process
        self._gateway = gateway
        self._folder = folder

    @staticmethod
    def start(folder: Path, line: PulsarVersion = "4.x", *, complete: bool = False) -> "PulsarPeer":
        """Start the JVM, with all jars of one version if it has to be `complete`.

        Batches, and the output of the JVM, pass through files in `folder`.

        Raises:
            PeerUnavailableError: there is no Maven, no JDK or no network.
        """
        java, javac = java_of(_JAVA[line])
        version, jars = resolve_class_path() if line == "4.x" else resolve_class_path_5(complete=complete)
        py4j = next(SPARK_JARS.glob("py4j-*.jar"))
        joined = os.pathsep.join([str(py4j), *silent(jars)])
        classes = compile_sources(joined, javac)
        token = secrets.token_hex(16)
        options = ["-Xmx768m", "-XX:+UseSerialGC", "-XX:+EnableDynamicAgentLoading", "-Xshare:auto"]
        options.append("-XX:TieredStopAtLevel=1")  # questions of two minutes are not worth more compiling
        with (folder / "jvm.log").open("w") as log:
            process = subprocess.Popen(
                [java, *options, "-cp", os.pathsep.join([str(classes), joined]), "barycenter.peer.PeerServer"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(token + "\n")
        process.stdin.flush()
        port = process.stdout.readline().strip()
        if not port:
            process.communicate()
            raise RuntimeError(f"the JVM did not start:\n{(folder / 'jvm.log').read_text()}")
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=int(port), auth_token=token))
        return PulsarPeer(line, version, process, gateway, folder)

    def ask(
        self, subject: str, question: str, cases: Iterable[T], document: Callable[[T], Any], *arguments: object
    ) -> Iterator[tuple[T, Any]]:
        """Yield each case with the answer of the static method `question` of the class `subject`, in order.

        The class is one of tests/peer/java; its method takes `arguments` and two paths. `document` converts a case
        to what msgspec can encode. Values that are not numbers come back as texts, and must be sent with `plain`.
        """
        method = getattr(getattr(self._gateway.jvm.barycenter.peer, subject), question)
        remaining = iter(cases)
        while batch := list(itertools.islice(remaining, BATCH)):
            asked, told = self._folder / "questions.jsonl", self._folder / "answers.jsonl"
            with asked.open("wb") as lines:
                lines.writelines(msgspec.json.encode(document(case)) + b"\n" for case in batch)
            method(*arguments, str(asked), str(told))
            with told.open("rb") as lines:
                yield from zip(batch, map(msgspec.json.decode, lines), strict=True)

    def close(self) -> None:
        """End the JVM and wait for it."""
        self._gateway.close()
        self._process.communicate(timeout=30)
