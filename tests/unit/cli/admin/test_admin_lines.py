"""Lines of `pulsar-admin`, typed as `barycenter admin`, on a broker with its REST: what is asked, and what is printed.

The transcript has them one after the other, `$` before a line, `>` before each request, `!` before an error. Addresses
stand as {broker}, {web} and {wire}, the folder of files as {data}; a last `…` is more output, which differs from run to
run.
"""

import asyncio
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from pulsar_barycenter.admin.client import Answer
from pulsar_barycenter.admin.commands.session import ClusterSession
from pulsar_barycenter.broker.load_manager.factory import load_manager_factory
from pulsar_barycenter.cli.main import main
from support.rest_cluster import RestCluster

TRANSCRIPT = Path(__file__).parents[3] / "data" / "admin" / "transcript.txt"
MORE = "…"


def blocks() -> list[list[str]]:
    """Return the lines of each command, the command first."""
    found: list[list[str]] = []
    for line in TRANSCRIPT.read_text().splitlines():
        if line.startswith("$ "):
            found.append([line])
        elif found and line:
            found[-1].append(line)
    return found


async def test_lines_of_pulsar_admin_ask_and_print_as_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    call = ClusterSession.call

    async def recorded(
        self: ClusterSession,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        media_type: str = "application/json",
    ) -> Any:
        query = "&".join(f"{key}={value}" for key, value in (params or {}).items())
        sent = "" if body is None else f" {msgspec.json.encode(body).decode()}"
        asked.append(f"> {method} {path}{'?' if query else ''}{query}{sent}")
        return await call(self, method, path, params=params, body=body, media_type=media_type)

    read = ClusterSession.read

    async def recorded_read(self: ClusterSession, path: str, *, params: Mapping[str, str] | None = None) -> Answer:
        query = "&".join(f"{key}={value}" for key, value in (params or {}).items())
        asked.append(f"> GET {path}{'?' if query else ''}{query}")
        return await read(self, path, params=params)

    monkeypatch.setattr(ClusterSession, "call", recorded)
    monkeypatch.setattr(ClusterSession, "read", recorded_read)
    cluster = RestCluster()
    try:
        broker = await cluster.add(
            load_manager_factory("ModularLoadManagerImpl"),
            barycenter_data_dir=str(tmp_path),
            broker_shutdown_timeout_ms=0,
            force_delete_namespace_allowed=True,
        )
        places = {
            "{broker}": broker.broker_id,
            "{web}": str(broker.urls.web_url),
            "{wire}": str(broker.urls.broker_url),
            "{data}": str(TRANSCRIPT.parent),
        }

        async def played(line: str) -> list[str]:
            asked.clear()
            for place, address in places.items():
                line = line.replace(place, address)
            words = ["admin", "--admin-url", places["{web}"], *shlex.split(line)]
            with capture_logs():
                result = await asyncio.to_thread(CliRunner().invoke, main, words)
            assert result.exit_code == (1 if result.stderr else 0), result.output
            lines = [*asked, *result.stdout.splitlines(), *(f"! {each}" for each in result.stderr.splitlines())]
            for place, address in reversed(places.items()):
                lines = [each.replace(address, place) for each in lines]
            return lines

        known = blocks()
        assert len(known) >= 60
        for block in known:
            expected = block[1:]
            lines = await played(block[0].removeprefix("$ "))
            if expected and expected[-1] == MORE:
                expected = expected[:-1]
                assert len(lines) > len(expected), block[0]
                lines = lines[: len(expected)]
            assert lines == expected, block[0]
    finally:
        await cluster.close()
