"""The class path of Apache Pulsar 5.0.1: broker, tools and clients, from single jars.

Maven Central has its jars, but not the parent projects of some of its libraries, so Maven cannot follow what it depends
on. What is not named here comes from the class path of the milestone before it.
"""

from typing import Final

from support.maven import Dependency, class_path, single_jars
from support.pulsar_peer import resolve_class_path_5

VERSION: Final = "5.0.1"

_JARS: Final = (
    *("broker", "broker-common", "metadata", "common", "cli-utils", "config-validation", "docs-tools", "websocket"),
    *("client-original", "client-api", "client-admin-original", "client-admin-api", "client-api-v5", "client-v5"),
    *("client-tools", "client-tools-api", "client-messagecrypto-bc", "testclient", "tls-factory-api"),
    *("http-client-api", "opentelemetry", "transaction-common", "transaction-coordinator", "io-core"),
    *("functions-api", "functions-instance", "functions-proto", "functions-runtime", "functions-secrets"),
    *("functions-utils", "functions-worker", "package-core", "package-filesystem-storage"),
)
_LIBRARIES: Final = {
    "0.10.1": ("io.github.merlimat.slog:slog",),
    "4.7.7": ("info.picocli:picocli", "info.picocli:picocli-shell-jline3"),
    "2.2.2": ("org.hdrhistogram:HdrHistogram",),
    "4.4.6": ("org.jline:jline",),
    "5.19.1": ("net.java.dev.jna:jna",),
    "0.10.0": ("com.carrotsearch:hppc",),
    "3.0.14": ("org.asynchttpclient:async-http-client",),
    "2.0.20": ("com.typesafe.netty:netty-reactive-streams",),
    "1.6.20": ("org.roaringbitmap:RoaringBitmap",),
    "0.9.5": ("io.github.oxia-db:oxia-client", "io.github.oxia-db:oxia-client-api"),
    "8.5.19": ("it.unimi.dsi:fastutil",),
    "4.18.2": tuple(
        f"org.apache.bookkeeper:{name}"
        for name in (
            *("bookkeeper-common", "bookkeeper-common-allocator", "bookkeeper-proto", "bookkeeper-server"),
            *("stream-storage-java-client", "stream-storage-server", "stream-storage-service-api"),
            *("stream-storage-service-impl", "stream-storage-proto", "stream-storage-common", "stream-storage-api"),
            *("stream-storage-java-client-base", "circe-checksum", "cpu-affinity", "bookkeeper-tools-framework"),
        )
    ),
    "4.2.19.Final": tuple(
        f"io.netty:netty-{name}"
        for name in (
            *("buffer", "common", "transport", "resolver", "resolver-dns", "handler", "handler-proxy", "codec-base"),
            *("codec", "codec-http", "codec-http2", "codec-dns", "codec-socks", "codec-haproxy", "codec-compression"),
            *("codec-protobuf", "codec-marshalling", "transport-classes-epoll", "transport-classes-io_uring"),
            "transport-native-unix-common",
        )
    ),
}


def resolve_class_path_5_0_1() -> list[str]:
    """Return the jars of Pulsar 5.0.1; of a class in two jars the first counts.

    Raises:
        PeerUnavailableError: there is no Maven or no network, and no earlier answer either.
    """
    own = [Dependency(f"org.apache.pulsar:pulsar-{name}", VERSION, without=("*:*",)) for name in _JARS]
    own.append(Dependency("org.apache.pulsar:managed-ledger", VERSION, without=("*:*",)))
    newer = [Dependency(name, version) for version, names in _LIBRARIES.items() for name in names]
    return [*class_path(*own), *single_jars(*newer), *resolve_class_path_5(complete=True)[1]]
