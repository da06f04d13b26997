"""`barycenter config` on brokers with their REST."""

import asyncio

import msgspec
import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.config.broker_conf import keys
from support.rest_cluster import rest_cluster

OK, FAILED = 0, 1
KEY = "loadBalancerSheddingIntervalMinutes"


async def run(url: str, *words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, ["config", *words, "--url", url])


async def test_a_setting_is_shown_changed_when_meant_and_then_in_force_everywhere() -> None:
    async with rest_cluster(2) as cluster:
        url = str(cluster.brokers[1].urls.web_url)
        (told,) = [msgspec.json.decode(line) for line in (await run(url, "get", KEY, "--json")).stdout.splitlines()]
        assert (list(told["values"]), told["sources"], told["isDynamic"]) == (["1"], {"1": "default"}, True)
        assert KEY not in (await run(url, "get")).stdout
        assert KEY in (await run(url, "get", "--all")).stdout

        shown = await run(url, "set", KEY, "3")
        assert (shown.exit_code, "nothing is done without --yes" in shown.stdout) == (OK, True)
        done = await run(url, "set", KEY, "3", "--yes")
        assert (done.exit_code, f"{KEY} is 3 on 2 brokers" in done.stdout) == (OK, True)
        assert {broker.config.current.load_balancer_shedding_interval_minutes for broker in cluster.brokers} == {3}
        assert "already" in (await run(url, "set", KEY, "3", "--yes")).stdout
        shown = await run(url, "get", KEY)
        assert "dynamic, by anonymous at " in shown.stdout
        why = "zu spät"
        assert (await run(url, "set", KEY, "4", "--yes", "--why", why)).exit_code == OK
        (told,) = [msgspec.json.decode(line) for line in (await run(url, "get", KEY, "--json")).stdout.splitlines()]
        changed = told["changed"]
        assert (changed["by"], changed["value"], changed["before"], changed["why"]) == ("anonymous", "4", "3", why)
        assert why in (await run(url, "get", KEY)).stdout


async def test_what_cannot_be_set_is_said() -> None:
    async with rest_cluster(1) as cluster:
        url = str(cluster.brokers[0].urls.web_url)
        for words, reason in [
            (("set", "clusterName", "x", "--yes"), "set it in broker.conf"),
            (("set", f"{KEY}x", "3", "--yes"), f"did you mean {KEY}"),
            (("set", KEY, "soon", "--yes"), KEY),
            (("get", f"{KEY}x"), f"did you mean {KEY}"),
        ]:
            told = await run(url, *words)
            assert (told.exit_code, reason in told.stderr) == (FAILED, True), told.output
    assert (await run("http://127.0.0.1:9", "get")).exit_code == FAILED


@pytest.mark.parametrize("words", [(), ("--yes",)])
@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        (KEY, "abc", "a number above 0"),
        (KEY, "-1", "a number above 0"),
        ("loadBalancerSheddingEnabled", "yes", "true or false"),
        ("loadBalancerLoadSheddingStrategy", "NoSuchShedder", "NoSuchShedder"),
        (KEY, " ", "blank"),
    ],
)
async def test_a_value_that_is_not_allowed_is_refused_before_it_is_set(
    key: str, value: str, allowed: str, words: tuple[str, ...]
) -> None:
    """A preview refuses as the change does: key, value and what is allowed."""
    async with rest_cluster(1) as cluster:
        url = str(cluster.brokers[0].urls.web_url)
        refused = await run(url, "set", key, value, *words)
        assert refused.exit_code != OK
        assert (key in refused.stderr, value.strip() in refused.stderr, allowed in refused.stderr) == (True,) * 3
        assert "would become" not in refused.output
        assert (await cluster.expect(200, "GET", "/admin/v2/brokers/configuration/values")).json == {}


async def test_brokers_that_differ_by_design_do_not_differ() -> None:
    """Ports, addresses and folders are of each broker; with --all they are shown."""
    async with rest_cluster(1) as cluster:
        await cluster.add(broker_shutdown_timeout_ms=0, web_service_port_tls=None, status_file_path="/tmp/up")
        url = str(cluster.brokers[0].urls.web_url)
        told = await run(url, "diff")
        assert "brokers do not differ in any setting" in told.stdout
        assert "not shown, as they differ by design: statusFilePath; --all shows them" in told.stdout
        assert (await run(url, "diff", "--json")).stdout == ""
        assert "/tmp/up" in (await run(url, "diff", "--all")).stdout


def test_each_address_and_port_is_of_its_broker() -> None:
    own = {name for name, key in keys().items() if key.own}
    assert own >= {"brokerServicePort", "webServicePort", "bindAddress", "advertisedAddress", "barycenterDataDir"}
    assert {name for name in keys() if name.endswith(("ServicePort", "ServicePortTls"))} <= own
    assert own.isdisjoint(name for name, key in keys().items() if key.dynamic)


async def test_brokers_that_differ_are_told() -> None:
    async with rest_cluster(1) as cluster:
        await cluster.add(broker_shutdown_timeout_ms=0, max_unload_percentage=0.9)
        told = await run(str(cluster.brokers[0].urls.web_url), "diff", "--json")
        differing = [msgspec.json.decode(line) for line in told.stdout.splitlines()]
        (found,) = [each for each in differing if each["key"] == "maxUnloadPercentage"]
        assert found["values"]["0.9"] == [cluster.brokers[1].broker_id]


async def test_an_override_is_removed_when_meant_and_the_next_start_has_the_default() -> None:
    async with rest_cluster(2) as cluster:
        url = str(cluster.brokers[1].urls.web_url)
        assert f"{KEY} is not a dynamic setting" in (await run(url, "unset", KEY, "--yes")).stdout
        assert (await run(url, "set", KEY, "3", "--yes")).exit_code == OK

        shown = await run(url, "unset", KEY)
        assert shown.exit_code == OK
        assert "brokers keep 3 until they restart, and then use the value of their broker.conf, else the default 1" in (
            shown.stdout
        )
        assert "nothing is done without --yes" in shown.stdout
        values = "/admin/v2/brokers/configuration/values"
        assert (await cluster.expect(200, "GET", values)).json == {KEY: "3"}

        done = await run(url, "unset", KEY, "--yes", "--why", "as before")
        assert (done.exit_code, f"removed the dynamic setting {KEY}" in done.stdout) == (OK, True)
        for broker in cluster.brokers:
            assert (await cluster.expect(200, "GET", values, at=broker)).json == {}
        changes = (await cluster.expect(200, "GET", "/barycenter/v1/setting-changes")).json
        assert (changes[KEY].get("value"), changes[KEY]["before"], changes[KEY]["why"]) == (None, "3", "as before")
        restarted = await cluster.add()
        assert restarted.config.current.load_balancer_shedding_interval_minutes == 1


async def test_what_cannot_be_unset_is_said() -> None:
    async with rest_cluster(1) as cluster:
        url = str(cluster.brokers[0].urls.web_url)
        for key, reason in (("clusterName", "set it in broker.conf"), (f"{KEY}x", f"did you mean {KEY}")):
            told = await run(url, "unset", key, "--yes")
            assert (told.exit_code, reason in told.stderr) == (FAILED, True), told.output
