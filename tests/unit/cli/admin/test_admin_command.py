"""`barycenter admin` in a shell: contradictory arguments, answers, completion of names."""

import asyncio
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.admin.commands.output import Form, lines_of, pretty
from pulsar_barycenter.admin.commands.table import Command, Kind
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.cli.admin.command import RESOURCES
from pulsar_barycenter.cli.admin.command import command as admin
from pulsar_barycenter.cli.main import main
from support.rest_cluster import RestCluster

NOBODY = ("admin", "--admin-url", "http://127.0.0.1:9", "--request-timeout", "1")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_null(each) for key, each in value.items() if each is not None}
    return [without_null(each) for each in value] if isinstance(value, list) else value


def run(*words: str) -> Result:
    return CliRunner().invoke(main, [*words])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("namespaces unload t/n -d b:1", "--bundle"),
        ("namespaces split-bundle t/n", "--bundle-type"),
        ("namespaces split-bundle t/n -bt LARGEST -sb 1,x", "whole numbers"),
        ("namespaces create t/n -b -1", "--bundles"),
        ("namespaces set-deduplication t/n -e -d", "either"),
        ("namespaces set-compaction-threshold t/n -t 1X", "bytes"),
        ("namespaces set-retention t/n -t 3x -s 1G", "100m, 3h"),
        ("namespaces set-retention t/n -t 3h -s 9999999T", "2^63"),
        ("namespaces set-backlog-quota t/n -lt 3h -p producer_exception", "needs a size limit: give --limit"),
        ("namespaces set-backlog-quota t/n -l 1G -t message_age -p producer_exception", "needs a time limit"),
        ("namespaces set-backlog-quota t/n -l 1G -p drop", "consumer_backlog_eviction"),
        ("namespaces set-auto-topic-creation t/n", "either --enable or --disable"),
        ("namespaces set-auto-topic-creation t/n -e -t partitioned", "--num-partitions"),
        ("namespaces grant-permission t/n --role r --actions fly", "produce"),
        ("namespaces policies nothing", "NAMESPACE"),
        ("topics stats a/b", "TOPIC"),
        ("topics create t/n/x -m a", "key=value"),
        ("topics create t/n/x -m a=b -m c", "key=value"),
        ("topics create t/n/x -m a=b -m a=c", "'a' has two values, 'b' and 'c'"),
        ("topics create-partitioned-topic t/n/x -p 1 -m a=b,a=c", "'a' has two values, 'b' and 'c'"),
        ("topics create-subscription t/n/x -s s -m 1", "LEDGER:ENTRY"),
        ("topics list t/n -td temporary", "persistent"),
        ("schemas get t/n/x -v 1 -a", "not both"),
        ("schemas get t/n/x -v -1", "from 0 on"),
        ("schemas upload t/n/x", "--filename"),
        ("schemas upload t/n/x -f /nowhere.json", "cannot be read"),
        ("schemas compatibility t/n/x -f /dev/zero", "more than 1048576 bytes"),
        ("schemas upload t/n/x -f /dev/null", "is not JSON"),
        ("namespaces set-schema-compatibility-strategy t/n -c BEST", "BACKWARD"),
        ("namespaces set-is-allow-auto-update-schema t/n", "either"),
        ("namespaces set-schema-validation-enforce t/n -e -d", "either"),
        ("brokers namespaces standalone", "--broker"),
        ("ns-isolation-policy set c p --namespaces a --primary b --auto-failover-policy-type min_available "
         "--auto-failover-policy-params min_limit=1", "usage_threshold"),
        ("resource-quotas get -n t/n", "give both or neither"),
        ("resource-quotas reset-namespace-bundle-quota", "name a bundle with --namespace and --bundle"),
        ("resource-quotas reset-namespace-bundle-quota -n t/n", "give both or neither"),
        ("clusters get", "CLUSTER"),
    ],
)  # fmt: skip
def test_words_that_do_not_go_together_are_wrong_usage(line: str, told: str) -> None:
    result = run(*NOBODY, *line.split())
    assert (result.exit_code, told in result.stderr) == (2, True), result.output


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("topics create t/n/x -m a=b -m c=d,e=f", {"a": "b", "c": "d", "e": "f"}),
        ("topics create t/n/x -m a=b --metadata a=b", {"a": "b"}),
        ("topics create t/n/x", None),
        ("topics create-partitioned-topic t/n/x -p 2", 2),
        ("topics create-partitioned-topic t/n/x -p 2 -m a=b -m c=d",
         {"partitions": 2, "properties": {"a": "b", "c": "d"}}),
        ("topics update-subscription-properties t/n/x -s s -p a=b -p c=d", {"a": "b", "c": "d"}),
        ("tenants create t -r a,b -r c -c one", {"adminRoles": ["a", "b", "c"], "allowedClusters": ["one"]}),
        ("namespaces grant-permission t/n --role r --actions produce --actions consume", ["produce", "consume"]),
        ("clusters update-peer-clusters c --peer-clusters a --peer-clusters b", ["a", "b"]),
    ],
)  # fmt: skip
def test_options_of_several_values_add_up(line: str, body: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    async def call(_session: Any, _method: str, _path: str, *, body: Any = None, **_options: Any) -> None:
        sent.append(body)

    monkeypatch.setattr("pulsar_barycenter.admin.commands.session.ClusterSession.call", call)
    result = run(*NOBODY, *line.split())
    assert (result.exit_code, sent) == (0, [body]), result.output


def test_each_option_of_several_values_may_be_repeated() -> None:
    for resource in RESOURCES:
        made = admin.commands[resource.name]
        assert isinstance(made, click.Group)
        for command in resource.commands:
            options = [each for each in made.commands[command.name].params if isinstance(each, click.Option)]
            multiple = {each.name for each in options if each.multiple}
            kinds = (Kind.NAMES, Kind.PAIRS)
            assert multiple == {flag.key for flag in command.flags if flag.kind in kinds}, command.name


ROWS = [(resource.name, command) for resource in RESOURCES for command in resource.commands]


def test_required_options_are_required_and_no_path_lacks_a_value(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for resource, command in ROWS:
        with subtests.test(command=f"{resource} {command.name}"):
            check_required_options(resource, command, monkeypatch)


def check_required_options(resource: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []

    async def call(_session: Any, _method: str, path: str, **_options: Any) -> Any:
        paths.append(path)
        raise AdminRequestError("GET", path, 404, "not there")

    async def read(session: Any, path: str, **_options: Any) -> Any:
        await call(session, "GET", path)

    monkeypatch.setattr("pulsar_barycenter.admin.commands.session.ClusterSession.call", call)
    monkeypatch.setattr("pulsar_barycenter.admin.commands.session.ClusterSession.read", read)
    typed = [resource, command.name, *("t/n/x" if each.name == "topic" else "t/n" for each in command.arguments)]
    required = [flag for flag in command.flags if flag.required]
    values = {Kind.NUMBER: "1", Kind.PAIRS: "min_limit=1,usage_threshold=2"}
    for flag in required:
        result = run(*NOBODY, *typed)
        assert (result.exit_code, f"Missing option {flag.spellings.split()[0]!r}" in result.stderr) == (2, True), flag
        allowed = flag.choices[0] if flag.choices else "produce" if flag.key == "actions" else "1"
        typed += [flag.spellings.split()[-1], values.get(flag.kind, allowed)]
    result = run(*NOBODY, *typed)
    assert result.exit_code == (1 if paths else 2), result.output
    assert "None" not in "".join(paths)


def test_a_cluster_that_does_not_answer_is_said() -> None:
    result = run(*NOBODY, "clusters", "list")
    assert (result.exit_code, "http://127.0.0.1:9" in result.stderr) == (1, True)


def test_every_command_says_what_it_does() -> None:
    assert sum(len(resource.commands) for resource in RESOURCES) > 80
    for resource in RESOURCES:
        for command in resource.commands:
            shown = run("admin", resource.name, command.name, "--help")
            assert command.help.split()[0] in shown.stdout
            for flag in command.flags:
                assert all(spelling in shown.stdout for spelling in flag.spellings.split())


@given(JSON)
def test_what_is_printed_for_people_is_the_same_json(value: Any) -> None:
    assert json.loads(pretty(value)) == without_null(value)


def test_the_forms_of_answers() -> None:
    assert list(lines_of(None)) == []
    assert list(lines_of("a b")) == ["a b"]
    assert list(lines_of(["a", {"b": []}])) == ["a", '{\n  "b" : [ ]\n}']
    nested = {"a": {}, "b": [1, {"c": True, "d": None}]}
    assert pretty(nested) == '{\n  "a" : { },\n  "b" : [ 1, {\n    "c" : true\n  } ]\n}'
    assert list(lines_of(["a"], Form.JSON)) == ['[ "a" ]']
    assert list(lines_of({"a": "b", "c": ["d", "e"]}, Form.PAIRS)) == ["a    b", "c    [d, e]"]


async def test_a_hostile_answer_steers_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    async def call(*_: Any, **__: Any) -> Any:
        return ["\x1b[31mred", "two\nlines", "\x9bA"]

    monkeypatch.setattr("pulsar_barycenter.admin.commands.session.ClusterSession.call", call)
    result = await asyncio.to_thread(run, *NOBODY, "clusters", "list")
    assert result.stdout == "\ufffd[31mred\ntwo\nlines\n\ufffdA\n"


async def test_names_of_the_cluster_are_completed(tmp_path: Path) -> None:
    cluster = RestCluster()
    try:
        broker = await cluster.add(load_manager_factory("ModularLoadManagerImpl"), barycenter_data_dir=str(tmp_path))
        await cluster.create_namespace(bundles=4)
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/clicks")
        at = ["admin", "--admin-url", str(broker.urls.web_url)]

        async def offered(begun: str, *words: str) -> list[str]:
            complete = ShellComplete(main, {}, "barycenter", "_BARYCENTER_COMPLETE")
            found = await asyncio.to_thread(complete.get_completions, [*at, *words], begun)
            return [each.value for each in found]

        assert "public" in await offered("pu", "tenants", "get")
        assert await offered("pub", "namespaces", "policies") == ["public/"]
        assert await offered("public/", "namespaces", "policies") == ["public/default", "public/ns"]
        assert await offered("public/ns/c", "topics", "stats") == ["public/ns/clicks"]
        assert await offered("public/n", "topics", "stats") == ["public/ns/"]
        assert await offered("persistent://public/ns/", "topics", "stats") == ["persistent://public/ns/clicks"]
        assert await offered("", "brokers", "namespaces", "standalone", "-b") == [broker.broker_id]
        assert await offered("stand", "clusters", "get") == ["standalone"]
        assert "split-bundle" in await offered("split", "namespaces")
        at = [*NOBODY]
        assert await offered("", "tenants", "get") == []
    finally:
        await cluster.close()
