"""Commands that restart brokers: what they are given, and what is said when they fail or hang."""

import asyncio
import os
from pathlib import Path

import pytest

from pulsar_barycenter.operations.rolling.contract import RollStopped
from pulsar_barycenter.operations.rolling.hooks import CommandHooks, PersonHooks, command_for

BROKER = "broker-1.pulsar.svc:8080"


def hooks(command: str, *, start: str = "", timeout_s: float = 60.0, said: list[str] | None = None) -> CommandHooks:
    return CommandHooks(command, start, timeout_s, [].append if said is None else said.append)


def test_places_are_replaced_by_quoted_texts_and_other_braces_stay() -> None:
    assert command_for("x {pod} {host} {port} {broker} {other} ${y}", BROKER) == (
        f"x broker-1 broker-1.pulsar.svc 8080 {BROKER} {{other}} ${{y}}"
    )
    assert command_for("x {host}", "a b; rm:1") == "x 'a b; rm'"


async def test_a_command_has_the_broker_in_its_environment(tmp_path: Path) -> None:
    file = tmp_path / "told"
    await hooks(f'echo "$BARYCENTER_BROKER $BARYCENTER_POD" > {file}').restart(BROKER)
    assert file.read_text() == f"{BROKER} broker-1\n"


async def test_a_command_that_fails_is_a_sentence_with_its_last_line() -> None:
    with pytest.raises(RollStopped, match=r"failed with status 3: .* \(it printed: no such pod\)"):
        await hooks("echo first; echo no such pod >&2; exit 3").restart(BROKER)


async def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    file = tmp_path / "child"
    with pytest.raises(RollStopped, match=r"did not end within 0\.3 s and was stopped"):
        await hooks(f"sleep 600 & echo $! > {file}; wait", timeout_s=0.3).restart(BROKER)
    child = int(file.read_text())
    async with asyncio.timeout(10):
        while Path(f"/proc/{child}/stat").exists() and " Z " not in Path(f"/proc/{child}/stat").read_text():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("waits", ["wait", "exit 0"])
async def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path, waits: str) -> None:
    """Also if the command itself ends at SIGTERM."""
    file = tmp_path / "child"
    command = f"(trap '' TERM; echo > {file}.ready; exec sleep 600) & echo $! > {file}; trap '{waits}' TERM; wait"
    ended = asyncio.ensure_future(CommandHooks(command, "", 1.0, [].append, ends_within_s=0.2).restart(BROKER))
    with pytest.raises(RollStopped, match="was stopped"):
        await ended
    child = int(file.read_text())
    assert Path(f"{file}.ready").exists()
    async with asyncio.timeout(10):
        while Path(f"/proc/{child}/stat").exists() and " Z " not in Path(f"/proc/{child}/stat").read_text():
            await asyncio.sleep(0.01)


async def test_a_command_ends_though_a_process_that_it_started_keeps_its_output(tmp_path: Path) -> None:
    file = tmp_path / "child"
    async with asyncio.timeout(30):
        await hooks(f"sleep 600 & echo $! > {file}").restart(BROKER)
    os.kill(int(file.read_text()), 9)


async def test_without_a_command_a_person_is_asked() -> None:
    said: list[str] = []
    await hooks("true", said=said).start(BROKER)
    await PersonHooks(said.append).restart(BROKER)
    await PersonHooks(said.append, is_pool=True).restart(BROKER)
    await PersonHooks(said.append).start(BROKER)
    assert [line.split(" now")[0] for line in said] == [
        f"start {BROKER}",
        f"restart {BROKER}",
        f"stop {BROKER}",
        f"start {BROKER}",
    ]
