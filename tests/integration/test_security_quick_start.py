"""The quick start of docs/security.md, walked as it is written: it ends with a cluster that refuses whom it should."""

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pulsar
import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.config.broker_conf import parse_broker_conf
from pulsar_barycenter.config.broker_config import BrokerConfig
from support.rest_cluster import RestCluster, rest_cluster
from support.stock_client import connect

pytestmark = pytest.mark.integration

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "security.md").read_text()
TOPIC = "persistent://public/default/orders"


def blocks(text: str) -> list[str]:
    """Return the indented blocks of a text, each without its indentation."""
    found = re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
    return ["".join(line.removeprefix("    ") for line in block.splitlines(keepends=True)) for block in found]


def quick_start(folder: Path) -> tuple[list[str], str, list[str], list[str]]:
    """Return the first chapter in `folder`: commands that make tokens, broker.conf, what is refused, the rest."""
    text = PAGE[PAGE.index("## Tokens") : PAGE.index("With a key pair")]
    makes, conf, refused, allowed = blocks(text.replace("/etc/barycenter", str(folder)).replace("$PWD", str(folder)))
    return makes.splitlines(), conf, refused.splitlines(), allowed.splitlines()


def run(line: str, **environment: str) -> Result:
    """Run a command line as a shell would, with variables before the command."""
    words = shlex.split(line)
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    assert words.pop(0) == "barycenter"
    return CliRunner(env=environment).invoke(main, words)


async def ran(cluster: RestCluster, line: str) -> Result:
    return await asyncio.to_thread(run, line, BARYCENTER_URL=str(cluster.brokers[0].urls.web_url))


def settings_of(conf: str) -> dict[str, Any]:
    """Return what a broker.conf changes of the defaults, by attribute."""
    config, defaults = parse_broker_conf(conf, "docs/security.md").config, BrokerConfig()
    names = msgspec.structs.fields(BrokerConfig)
    changed = {each.name: getattr(config, each.name) for each in names}
    return {name: value for name, value in changed.items() if value != getattr(defaults, name)}


def sends(url: str, token: str) -> bool:
    client = connect(
        url,
        authentication=pulsar.AuthenticationToken(token),
        operation_timeout_seconds=20,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        consumer = client.subscribe(TOPIC, "s")
        client.create_producer(TOPIC).send(b"hello")
        return bool(consumer.receive(20_000).data() == b"hello")
    finally:
        client.close()


async def test_the_quick_start_ends_with_a_cluster_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    makes, conf, refused, allowed = quick_start(tmp_path)
    for line in makes:
        assert run(line).exit_code == 0, line
    made = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert made == dict.fromkeys(("secret.key", "broker.token", "admin.token", "alice.token"), 0o600)

    async with rest_cluster(2, **settings_of(conf)) as cluster:
        shown = await ran(
            cluster, f"BARYCENTER_TOKEN=file://{tmp_path}/admin.token barycenter doctor --check no-authorization"
        )
        assert (shown.exit_code, ": healthy" in shown.output) == (0, True), shown.output
        assert len(refused) == 2
        for line in refused:
            result = await ran(cluster, line)
            assert (result.exit_code, "not authorized" in result.output) == (1, True), f"{line}: {result.output}"
        assert {broker.config.current.load_balancer_shedding_enabled for broker in cluster.brokers} == {True}

        *grants, looks = allowed
        for line in grants:
            assert (await ran(cluster, line)).exit_code == 0, line
        looked = await ran(cluster, looks)
        assert "no-authorization" not in looked.output
        assert "not answer" not in looked.output
        alice = (tmp_path / "alice.token").read_text().strip()
        assert await asyncio.to_thread(sends, str(cluster.brokers[0].urls.broker_url), alice)
        again = await ran(cluster, refused[0])
        assert (again.exit_code, "not authorized" in again.output) == (1, True)


async def test_without_authorization_the_doctor_finds_that_anybody_may_do_everything(tmp_path: Path) -> None:
    """What happens to who leaves the line out."""
    makes, conf, (changes, _), _ = quick_start(tmp_path)
    for line in makes:
        run(line.replace("--output a", f"--output {tmp_path}/a"))
    open_to_all = settings_of(conf.replace("authorizationEnabled=true", "authorizationEnabled=false"))
    async with rest_cluster(1, **open_to_all) as cluster:
        assert (await ran(cluster, changes)).exit_code == 0
        found = await ran(cluster, f"BARYCENTER_TOKEN=file://{tmp_path}/alice.token barycenter doctor")
        assert (found.exit_code, "no-authorization  authorizationEnabled" in found.output) == (1, True)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_every_configuration_with_authentication_has_authorization(page: Path) -> None:
    """Pages are copied from: what they show is refused nowhere and binds nobody otherwise."""
    text = page.read_text()
    for block in [*blocks(text), *re.findall(r"```\n(.*?)```", text, re.DOTALL)]:
        if re.search("^authenticationEnabled=true", block, re.MULTILINE):
            assert "authorizationEnabled=true" in block
            assert "superUserRoles=" in block
