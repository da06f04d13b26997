"""Apache Pulsar's own classes in one JVM, to be asked the same questions as ours.

`PulsarPeer.start` resolves the newest 4.x `pulsar-broker` with its dependencies, compiles the few classes of
tests/peer/java against it, starts one JVM that ends with this process, and answers batches of cases.
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
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from py4j.java_gateway import GatewayParameters, JavaGateway  # type: ignore[import-untyped]

from support.maven import SPARK_JARS, Dependency, PeerUnavailableError, class_path, default_cache, tool

T = TypeVar("T")

SOURCES: Final = Path(__file__).parents[1] / "peer" / "java"
BATCH: Final = 500
_REFRESH_AFTER_S: Final = 7 * 86_400
_BROKER: Final = "org.apache.pulsar:pulsar-broker"
_VERSIONS: Final = "[4.0.0,5.0.0-alpha)"
_MOCKITO: Final = Dependency("org.mockito:mockito-core", "5.14.2")


def newest_version() -> str:
    """Return the newest 4.x version of Pulsar; asks Maven when the last answer is a week old.

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
    """Return the version and the jars of the newest 4.x broker, Mockito among them.

    Raises:
        PeerUnavailableError: there is no Maven or no network, and no earlier answer either.
    """
    version = newest_version()
    # Maven alone would take other versions of what the broker depends on than Pulsar was built with.
    parent = Dependency("org.apache.pulsar:pulsar", version)
    return version, class_path(Dependency(_BROKER, version), _MOCKITO, versions_of=parent)


def silent(jars: list[str]) -> list[str]:
    """Leave out what logs: Pulsar's classes log a line a decision."""
    return [jar for jar in jars if "slf4j2-impl" not in jar]


def compile_sources(joined: str) -> Path:
    """Return the folder with the classes of tests/peer/java, compiled unless that was done before."""
    sources = sorted(SOURCES.rglob("*.java"))
    digest = hashlib.sha256(joined.encode())
    for source in sources:
        digest.update(source.read_bytes())
    target = default_cache() / "classes" / digest.hexdigest()[:16]
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [tool("javac"), "-nowarn", "-Xlint:none", "-proc:none"]
        command += ["-d", f"{folder}/classes", "-cp", joined]
        done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"tests/peer/java does not compile against Pulsar:\n{done.stderr}")
        shutil.move(f"{folder}/classes", target)
    return target


def plain(value: Any) -> Any:
    """Return `value` as JSON documents hold it; numbers that JSON has not as the texts that Jackson takes for them."""
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, msgspec.Struct):
        pairs = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return {key: plain(item) for key, name in pairs if (item := getattr(value, name)) is not None}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


class PulsarPeer:
    """A JVM with Pulsar's classes; `version` is Pulsar's."""

    def __init__(self, version: str, process: "subprocess.Popen[str]", gateway: JavaGateway, folder: Path) -> None:
        self.version = version
        self._process = process
        self._gateway = gateway
        self._folder = folder

    @staticmethod
    def start(folder: Path) -> "PulsarPeer":
        """Start the JVM; batches pass through files in `folder`, and so does what the JVM says.

        Raises:
            PeerUnavailableError: there is no Maven, no JDK or no network.
        """
        java = tool("java")
        version, jars = resolve_class_path()
        py4j = next(SPARK_JARS.glob("py4j-*.jar"))
        joined = os.pathsep.join([str(py4j), *silent(jars)])
        classes = compile_sources(joined)
        token = secrets.token_hex(16)
        options = ["-Xmx768m", "-XX:+UseSerialGC", "-XX:+EnableDynamicAgentLoading", "-Xshare:auto"]
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
        return PulsarPeer(version, process, gateway, folder)

    def ask(
        self, subject: str, question: str, cases: Iterable[T], document: Callable[[T], Any], *arguments: object
    ) -> Iterator[tuple[T, Any]]:
        """Yield each case with the answer of the static method `question` of the class `subject`, in order.

        The class is one of tests/peer/java; its method takes `arguments` and two paths. `document` makes of a case
        what msgspec can encode. Figures that are no numbers come back as texts, and have to be asked with `plain`.
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
