"""The rooms of the house: imports run downward only."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "barycenter"

ROOMS: dict[str, set[str]] = {
    "naming": set(),
    "config": set(),
    "protocol": set(),
    "metadata": {"config"},
    "load": {"naming", "config"},
    "ledger": {"metadata", "naming"},
    "logs": {"load"},
    "admin": {"naming"},
    "broker": {"naming", "config", "protocol", "metadata", "load", "ledger", "logs", "admin"},
    "pipeline": {"naming", "config", "load"},
    "snapshots": {"naming", "config", "load", "pipeline"},
    "attach": {"config", "load", "logs", "admin"},
    "demo": {"naming", "config", "load", "logs", "admin", "pipeline", "standalone"},
    "standalone": {"config"},
    "cli": {
        "naming",
        "config",
        "protocol",
        "metadata",
        "load",
        "ledger",
        "logs",
        "admin",
        "broker",
        "pipeline",
        "snapshots",
        "standalone",
        "demo",
        "attach",
    },
}

SPARK_ROOM = "pipeline"


def imported_modules(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    allowed = ROOMS[room] | {room}
    for file in (SOURCE / room).rglob("*.py"):
        used = {name.split(".")[1] for name in imported_modules(file) if name.startswith("barycenter.")}
        assert used <= allowed, f"{file.relative_to(SOURCE)} imports {sorted(used - allowed)}"


def test_every_room_is_listed() -> None:
    rooms = {entry.name for entry in SOURCE.iterdir() if entry.is_dir() and entry.name != "__pycache__"}
    assert rooms == set(ROOMS)


def test_spark_is_imported_by_the_pipeline_alone() -> None:
    for file in SOURCE.rglob("*.py"):
        room = file.relative_to(SOURCE).parts[0]
        if room != SPARK_ROOM:
            assert not any(name.split(".")[0] == "pyspark" for name in imported_modules(file)), file
