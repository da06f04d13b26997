"""`barycenter config` on brokers with their REST."""

import asyncio

import msgspec
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
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
        assert "dynamic, by nobody at " in shown.stdout
        why = "zu spät"
        assert (await run(url, "set", KEY, "4", "--yes", "--why", why)).exit_code == OK
        (told,) = [msgspec.json.decode(line) for line in (await run(url, "get", KEY, "--json")).stdout.splitlines()]
        changed = told["changed"]
        assert (changed["by"], changed["value"], changed["before"], changed["why"]) == ("nobody", "4", "3", why)
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


async def test_brokers_that_differ_are_told() -> None:
    async with rest_cluster(1) as cluster:
        await cluster.add(broker_shutdown_timeout_ms=0, max_unload_percentage=0.9)
        told = await run(str(cluster.brokers[0].urls.web_url), "diff", "--json")
        differing = [msgspec.json.decode(line) for line in told.stdout.splitlines()]
        (found,) = [each for each in differing if each["key"] == "maxUnloadPercentage"]
        assert found["values"]["0.9"] == [cluster.brokers[1].broker_id]
