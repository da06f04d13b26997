"""The credentials of commands: by the same options, contexts, files and variables as `barycenter admin`."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.admin.client_conf import CONTEXTS
from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.cli.asking.client import asked_url, asking_conf, named_url
from pulsar_barycenter.cli.main import main
from support.authorities import Authority
from support.rest_cluster import RestCluster

OK, FAILED, WRONG = 0, 1, 2
HTPASSWD = "alice:$apr1$abcdefgh$GQVaHFsauSKl0cgw4bVFJ/\n"
USER = '{"userId":"alice","password":"sesame"}'

ASKING = {
    "status": (),
    "snapshot": ("--out", "-"),
    "decide": (),
    "plan": (),
    "explain": ("--broker",),
    "doctor": ("--check", "settings-apart"),
    "monitor-brokers": ("--once",),
    "config get": (),
    "config diff": (),
    "config set": ("loadBalancerSheddingEnabled", "false"),
    "config unset": ("loadBalancerSheddingEnabled",),
    "move": ("public/ns/0x00000000_0xffffffff", "--to"),
    "drain": (),
    "undrain": (),
    "roll": (),
    "verify": ("PLAN",),
    "execute": ("PLAN",),
    "collect": ("--rounds", "1", "--out"),
    "top": (),
}
"""Every command that asks brokers, but `admin`, with what has to be typed."""
RUN_ELSEWHERE = {"balance restore", "import prometheus", "watch"}
"""Commands that ask brokers, too, and need another process or run until they are stopped; their own tests run them."""


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("BARYCENTER_TOKEN", "PULSAR_CLIENT_CONF", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def by_name(name: str) -> click.Command:
    found: Any = main
    for word in name.split():
        found = found.get_command(click.Context(found), word)
    assert isinstance(found, click.Command)
    return found


def walked(group: click.Group, *words: str) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        if isinstance(found, click.Group):
            yield from walked(found, *words, name)
        elif found is not None:
            yield " ".join((*words, name)), found


def test_each_command_that_takes_an_address_takes_who_asks() -> None:
    for name, found in walked(main):
        options = {option for each in found.params for option in each.opts}
        if name in ASKING or name in RUN_ELSEWHERE:
            assert {"--context", "--auth-plugin", "--auth-params", "--tls-trust-cert-path"} <= options, name
        elif not name.startswith("admin "):
            assert not {"--auth-plugin"} & options, name
            assert "--url" not in options, f"{name} takes an address; let it take who asks, and stand in the list"


def test_options_go_before_a_context_that_before_a_file_and_that_before_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (asked_url(None), named_url(None)) == ("http://127.0.0.1:8080", None)
    monkeypatch.setenv("BARYCENTER_URL", "v:8080")
    monkeypatch.setenv("BARYCENTER_TOKEN", "of-a-variable")
    assert (asked_url(None), asking_conf().shows.secret) == ("http://v:8080", "of-a-variable")
    (tmp_path / "client.conf").write_text("webServiceUrl=http://f:8080\nauthPlugin=token\nauthParams=of-a-file\n")
    monkeypatch.setenv("PULSAR_CLIENT_CONF", str(tmp_path / "client.conf"))
    assert (asked_url(None), asking_conf().shows.secret) == ("http://f:8080", "of-a-file")
    (tmp_path / CONTEXTS).parent.mkdir()
    (tmp_path / CONTEXTS).write_text('{"configs": {"prod": {"value": "webServiceUrl=http://c:8080"}}}')
    seen: list[tuple[str, str]] = []

    def look(url: str | None) -> None:
        conf = asking_conf(url)
        seen.append((conf.web_service_url, conf.shows.secret))

    monkeypatch.setattr(by_name("snapshot"), "callback", lambda url, **_: look(url))
    for words in (
        (),
        ("--context", "prod"),
        ("--context", "prod", "--url", "o:8080", "--auth-plugin", "token", "--auth-params", "typed"),
    ):
        assert CliRunner().invoke(main, ["snapshot", "--out", "-", *words]).exit_code == OK
    assert seen == [
        ("http://f:8080", "of-a-file"),
        ("http://c:8080", "of-a-variable"),
        ("http://o:8080", "typed"),
    ]


@pytest.mark.parametrize("name", sorted(set(ASKING) - {"top"}))
def test_what_cannot_be_used_is_wrong_usage_and_tells_no_secret(name: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    plan.write_text(
        json.dumps({"kind": "unload", "bundle": "t/n/0x00000000_0xffffffff", "source": "a:1", "destination": "b:1"})
    )
    words = [*name.split(), *(str(plan) if word == "PLAN" else word for word in ASKING[name])]
    words += [str(tmp_path / "out")] if name == "collect" else []
    words += ["b:1"] if name in ("move", "drain", "undrain", "explain") else []
    words += ["--yes"] if name == "execute" else []
    told = CliRunner().invoke(
        main, [*words, "--auth-plugin", "basic", "--auth-params", "sesame"], env={"BARYCENTER_URL": "127.0.0.1:9"}
    )
    assert (told.exit_code, "authParams" in told.stderr) == (WRONG, True), told.output
    assert "sesame" not in told.output


async def run(*words: str, **env: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, list(words), env=env)


async def run_process(*words: str, **env: str) -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pulsar_barycenter", *words, env={**os.environ, **env}
    )
    return await process.wait()


async def asked_of(cluster: RestCluster, url: str, folder: Path, *options: str, **env: str) -> dict[str, int]:
    """Return how each command ended, of a namespace with one bundle that the first broker serves."""
    first, second = (broker.broker_id for broker in cluster.brokers)
    bundle = "public/ns/0x00000000_0xffffffff"
    plan = folder / "plan.jsonl"
    plan.write_text(json.dumps({"kind": "unload", "bundle": bundle, "source": first, "destination": second}))
    more = dict.fromkeys(("drain", "undrain", "move", "explain"), (second,)) | {"collect": (str(folder / "out"),)}
    ended = {}
    for name, words in ASKING.items():
        if name == "top":  # it wants a terminal
            continue
        typed = [str(plan) if word == "PLAN" else word for word in words]
        address = ("--connect-string", url) if name == "monitor-brokers" else ("--url", url)
        line = (*name.split(), *typed, *more.get(name, ()), *address, *options)
        if name == "collect":  # it wants the main thread
            ended[name] = await run_process(*line, **env)
            continue
        told = await run(*line, **env)
        assert "sesame" not in told.output
        ended[name] = told.exit_code
    told = await run("execute", str(plan), "--url", url, "--yes", "--journal", str(folder / "j"), *options, **env)
    ended["execute --yes"] = told.exit_code
    ended["verify moved"] = (await run("verify", str(plan), "--url", url, *options, **env)).exit_code
    return ended


EXPECTED = dict.fromkeys(set(ASKING) - {"top"}, OK) | {
    "undrain": FAILED,  # nobody is drained
    "verify": FAILED,  # nothing has been moved
    "execute --yes": OK,
    "verify moved": OK,
}


def assert_expected(ended: dict[str, int]) -> None:
    """A plan needs reports that foresee load. On a slow machine they have come before it is asked for, else not."""
    assert ended.pop("plan") in (OK, FAILED)
    assert ended == {name: code for name, code in EXPECTED.items() if name != "plan"}


@pytest.mark.parametrize("by", ["options", "file"])
async def test_a_cluster_that_wants_certificates_is_asked(tmp_path: Path, by: str) -> None:
    authority = Authority(tmp_path)
    server, own, admin = (authority.issue(name) for name in ("server", "broker", "admin"))
    settings = {
        "web_service_port_tls": 0,
        "broker_service_port_tls": 0,
        "tls_certificate_file_path": str(server.certificate),
        "tls_key_file_path": str(server.key),
        "tls_trust_certs_file_path": str(authority.file),
        "tls_require_trusted_client_cert_on_connect": True,
        "broker_client_tls_enabled": True,
        "broker_client_trust_certs_file_path": str(authority.file),
        "authentication_enabled": True,
        "authentication_providers": ("org.apache.pulsar.broker.authentication.AuthenticationProviderTls",),
        "broker_client_authentication_plugin": "tls",
        "broker_client_authentication_parameters": f"tlsCertFile:{own.certificate},tlsKeyFile:{own.key}",
        "authorization_enabled": True,
        "super_user_roles": ("admin", "broker"),
    }
    cluster = RestCluster()
    try:
        await brokers_of(cluster, tmp_path, settings)
        url = str(cluster.brokers[0].urls.web_url_tls)
        context = authority.trusting(admin)
        async with cluster.session.put(
            f"{url}/admin/v2/namespaces/public/ns", json={"bundles": {"numBundles": 1}}, ssl=context
        ) as answer:
            assert answer.status == 204, await answer.text()
        async with cluster.session.get(
            f"{url}/lookup/v2/topic/persistent/public/ns/t", params={"authoritative": "true"}, ssl=context
        ) as answer:
            assert answer.status == 200, await answer.text()
        files = f"tlsCertFile:{admin.certificate},tlsKeyFile:{admin.key}"
        if by == "options":
            typed = ("--auth-plugin", "tls", "--auth-params", files, "--tls-trust-cert-path", str(authority.file))
            ended = await asked_of(cluster, url, tmp_path, *typed)
        else:
            (tmp_path / "client.conf").write_text(
                f"tlsTrustCertsFilePath={authority.file}\ntlsCertificateFilePath={admin.certificate}\n"
                f"tlsKeyFilePath={admin.key}\n"
            )
            ended = await asked_of(cluster, url, tmp_path, PULSAR_CLIENT_CONF=str(tmp_path / "client.conf"))
        assert_expected(ended)
        nobody = await run("config", "get", "--url", url, "--tls-trust-cert-path", str(authority.file))
        assert nobody.exit_code == FAILED
        stranger = await run("snapshot", "--out", "-", "--url", url)
        assert (stranger.exit_code, "CERTIFICATE_VERIFY_FAILED" in stranger.stderr) == (FAILED, True)
    finally:
        await cluster.close()


async def test_a_cluster_of_users_and_passwords_is_asked(tmp_path: Path) -> None:
    settings = {
        "authentication_enabled": True,
        "authentication_providers": ("org.apache.pulsar.broker.authentication.AuthenticationProviderBasic",),
        "basic_auth_conf": base64.b64encode(HTPASSWD.encode()).decode(),
        "broker_client_authentication_plugin": "basic",
        "broker_client_authentication_parameters": USER,
        "authorization_enabled": True,
        "super_user_roles": ("alice",),
    }
    cluster = RestCluster()
    try:
        cluster.session.headers["Authorization"] = f"Basic {base64.b64encode(b'alice:sesame').decode()}"
        await brokers_of(cluster, tmp_path, settings)
        await cluster.create_namespace(bundles=1)
        await cluster.expect(200, "GET", "/lookup/v2/topic/persistent/public/ns/t", authoritative="true")
        url = str(cluster.brokers[0].urls.web_url)
        ended = await asked_of(cluster, url, tmp_path, "--auth-plugin", "basic", "--auth-params", USER)
        assert_expected(ended)
        wrong = '{"userId":"alice","password":"guess"}'
        refused = await run("config", "get", "--url", url, "--auth-plugin", "basic", "--auth-params", wrong)
        assert (refused.exit_code, "guess" in refused.output) == (FAILED, False)
    finally:
        await cluster.close()


async def brokers_of(cluster: RestCluster, folder: Path, settings: dict[str, Any]) -> None:
    for _ in range(2):
        await cluster.add(
            load_manager_factory("ModularLoadManagerImpl"),
            barycenter_data_dir=str(folder),
            load_balancer_shedding_enabled=False,
            broker_shutdown_timeout_ms=0,
            **settings,
        )
