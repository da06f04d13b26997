"""Apache Pulsar's own classes in one JVM, to be asked the same questions as ours.

`PulsarPeer.start` lets Maven resolve the newest 4.x `pulsar-broker` with its dependencies into a cache, compiles the
few classes of tests/peer/java against it, starts one JVM that ends with this process, and answers batches of cases.
"""

import hashlib
import itertools
import json
import math
import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway  # type: ignore[import-untyped]

T = TypeVar("T")

SOURCES: Final = Path(__file__).parents[1] / "peer" / "java"
BATCH: Final = 500
_REFRESH_AFTER_S: Final = 7 * 86_400
_RESOLVE_TIMEOUT_S: Final = 840
_RANGE: Final = "[4.0.0,5.0.0-alpha)"
_MOCKITO: Final = "5.14.2"

# a repository that a parent POM names and that holds nothing needed here
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>barycenter</groupId><artifactId>peer</artifactId><version>1</version>
<repositories><repository><id>confluent</id><url>file:///nowhere</url><releases><enabled>false</enabled></releases>
<snapshots><enabled>false</enabled></snapshots></repository></repositories>
<dependencies>{dependencies}</dependencies>
</project>
"""
_NOTHING_ELSE: Final = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_RED_TAPE: Final = re.compile(r"\x1b\[[0-9;]*m")


class PeerUnavailableError(RuntimeError):
    """Pulsar's classes cannot be had here; the text says what is missing."""


def default_cache() -> Path:
    """Return the folder of resolved artifacts and compiled classes, kept from run to run."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "barycenter" / "peer"


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PeerUnavailableError(f"{name} is not on the PATH; the peer suite needs Maven and a JDK, 17 or newer")
    return found


def _dependency(artifact: str, version: str, more: str = "") -> str:
    group, name = artifact.split(":")
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>{more}</dependency>"
    )


def _resolve(cache: Path, *dependencies: str) -> list[str]:
    """Return the class path of `dependencies`, by Maven, into the cache."""
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        pom, answer = Path(folder) / "pom.xml", Path(folder) / "classpath"
        pom.write_text(_POM.format(dependencies="".join(dependencies)))
        command = [_tool("mvn"), "-q", "-B", "-f", str(pom), f"-Dmaven.repo.local={cache / 'repository'}"]
        command += ["dependency:build-classpath", f"-Dmdep.outputFile={answer}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_RESOLVE_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise PeerUnavailableError(f"Maven did not come to an end within {_RESOLVE_TIMEOUT_S} s") from None
        if done.returncode:
            lines = [line for line in _RED_TAPE.sub("", done.stdout + done.stderr).splitlines() if line.strip()]
            raise PeerUnavailableError(f"Maven could not resolve Pulsar's broker: {lines[0] if lines else ''}")
        return answer.read_text().strip().split(os.pathsep)


def newest_version(cache: Path) -> str:
    """Return the newest 4.x version of pulsar-broker."""
    # without its dependencies, or Maven would read those of every version in the range
    (jar,) = _resolve(cache, _dependency("org.apache.pulsar:pulsar-broker", _RANGE, _NOTHING_ELSE))
    return Path(jar).stem.removeprefix("pulsar-broker-")


def resolve_class_path(cache: Path) -> tuple[str, list[str]]:
    """Return the version and the jars of the newest 4.x broker; asks Maven when the last answer is a week old.

    Raises:
        PeerUnavailableError: there is no Maven or no network, and no earlier answer either.
    """
    _tool("mvn")
    cache.mkdir(parents=True, exist_ok=True)
    kept = cache / "class-path.json"
    earlier = json.loads(kept.read_text()) if kept.exists() else None
    if earlier is not None and not all(Path(jar).exists() for jar in earlier["jars"]):
        earlier = None
    if earlier is not None and time.time() - kept.stat().st_mtime < _REFRESH_AFTER_S:
        return earlier["version"], earlier["jars"]
    try:
        version = newest_version(cache)
        broker = _dependency("org.apache.pulsar:pulsar-broker", version)
        jars = _resolve(cache, broker, _dependency("org.mockito:mockito-core", _MOCKITO))
    except PeerUnavailableError:
        if earlier is None:
            raise
        return earlier["version"], earlier["jars"]
    # its classes log a line a decision; without a provider they log nothing
    jars = [jar for jar in jars if "slf4j2-impl" not in jar]
    fresh = kept.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps({"version": version, "jars": jars}))
    fresh.replace(kept)
    return version, jars


def compile_sources(cache: Path, class_path: str) -> Path:
    """Return the folder with the classes of tests/peer/java, compiled unless that was done before."""
    sources = sorted(SOURCES.rglob("*.java"))
    digest = hashlib.sha256(class_path.encode())
    for source in sources:
        digest.update(source.read_bytes())
    target = cache / "classes" / digest.hexdigest()[:16]
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [_tool("javac"), "-nowarn", "-Xlint:none", "-proc:none", "-d", f"{folder}/classes", "-cp", class_path]
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
    def start(cache: Path, folder: Path) -> "PulsarPeer":
        """Start the JVM; batches pass through files in `folder`, and so does what the JVM says.

        Raises:
            PeerUnavailableError: there is no Maven, no JDK or no network.
        """
        java = _tool("java")
        version, jars = resolve_class_path(cache)
        py4j = next((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
        class_path = os.pathsep.join([str(py4j), *jars])
        classes = compile_sources(cache, class_path)
        token = secrets.token_hex(16)
        options = ["-Xmx768m", "-XX:+UseSerialGC", "-XX:+EnableDynamicAgentLoading", "-Xshare:auto"]
        with (folder / "jvm.log").open("w") as log:
            process = subprocess.Popen(
                [java, *options, "-cp", os.pathsep.join([str(classes), class_path]), "barycenter.peer.PeerServer"],
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
