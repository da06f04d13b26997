"""The output once a broker, or a cluster, serves."""

import msgspec

from pulsar_barycenter.standalone.ready import READY_JSON, BrokerReady, ClusterReady, broker_line, parse_broker_ready


def broker(index: int, *, tls: bool = False, plain: bool = True) -> BrokerReady:
    return BrokerReady(
        broker=f"127.0.0.1:{8080 + index}",
        pid=100 + index,
        data="/data",
        broker_url=f"pulsar://127.0.0.1:{6650 + index}" if plain else None,
        broker_url_tls=f"pulsar+ssl://localhost:{6750 + index}" if tls else None,
        web_url=f"http://127.0.0.1:{8080 + index}" if plain else None,
        web_url_tls=f"https://localhost:{8180 + index}" if tls else None,
    )


def cluster(*brokers: BrokerReady, ephemeral: bool = False) -> ClusterReady:
    return ClusterReady.of(brokers, data="/data", pid=1, has_pipeline=True, ephemeral=ephemeral)


def test_the_line_names_all_brokers_and_where_their_data_is() -> None:
    assert cluster(broker(0), broker(1)).line() == (
        "ready: pulsar://127.0.0.1:6650,127.0.0.1:6651 (web http://127.0.0.1:8080, http://127.0.0.1:8081); "
        "data in /data"
    )
    assert cluster(broker(0), ephemeral=True).line().endswith("; data in /data, deleted at the end")


def test_the_line_has_the_ports_of_tls() -> None:
    assert cluster(broker(0, tls=True), broker(1, tls=True)).line() == (
        "ready: pulsar://127.0.0.1:6650,127.0.0.1:6651 (web http://127.0.0.1:8080, http://127.0.0.1:8081; "
        "TLS pulsar+ssl://localhost:6750,localhost:6751, https://localhost:8180, https://localhost:8181); data in /data"
    )
    assert broker_line(broker(0, tls=True)) == (
        "ready: pulsar://127.0.0.1:6650 (web http://127.0.0.1:8080; TLS pulsar+ssl://localhost:6750, https://localhost:8180)"
    )
    assert broker_line(broker(0, tls=True, plain=False)) == (
        "ready: pulsar+ssl://localhost:6750 (web https://localhost:8180)"
    )


def test_what_a_broker_says_to_programs_is_read_back() -> None:
    said = msgspec.json.encode(broker(0, tls=True)).decode()
    assert said.startswith(READY_JSON)
    assert parse_broker_ready(said) == broker(0, tls=True)


def test_a_program_finds_all_urls_the_folder_and_the_process() -> None:
    document = msgspec.json.decode(msgspec.json.encode(cluster(broker(0, tls=True), broker(1, tls=True))))
    assert document["event"] == "ready"
    assert document["serviceUrl"] == "pulsar://127.0.0.1:6650,127.0.0.1:6651"
    assert document["serviceUrlTls"] == "pulsar+ssl://localhost:6750,localhost:6751"
    assert document["webUrls"] == ["http://127.0.0.1:8080", "http://127.0.0.1:8081"]
    assert document["webUrlsTls"] == ["https://localhost:8180", "https://localhost:8181"]
    assert (document["data"], document["pid"], document["pipeline"], document["ephemeral"]) == (
        *("/data", 1),
        *("starting", False),
    )
    assert [each["brokerUrlTls"] for each in document["brokers"]] == [
        "pulsar+ssl://localhost:6750",
        "pulsar+ssl://localhost:6751",
    ]
