"""A topic with unreadable parts serves the rest, reports the damage, and can be deleted."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import structlog

from pulsar_barycenter.ledger.errors import (
    LedgerCorruptedError,
    LedgerError,
    LedgerNotFoundError,
    LedgerUnreadableError,
)
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.files.repair import FileState, inspect, repair
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.managed_ledger import managed_ledger_path
from pulsar_barycenter.ledger.position import EARLIEST, Position
from support.ledger_world import TOPIC, LedgerWorld, Owner

STOP = LedgerSettings(max_entries_per_ledger=5, mark_delete_per_second=0)
SKIP = replace(STOP, skip_non_recoverable=True)
ENTRY = fmt.ENTRY_HEADER_SIZE + 1
"""Bytes of one of the entries "0" to "9"."""


@dataclass
class Disk:
    world: LedgerWorld
    folder: Path
    epoch: int = 0

    async def open(self, settings: LedgerSettings = STOP) -> Owner:
        self.epoch += 1
        return await self.world.open(self.epoch, settings=settings)

    def file(self, ledger_id: int) -> Path:
        return self.folder / "000000" / f"{ledger_id:012x}.ledger"

    def flip(self, ledger_id: int, entry_id: int, byte: int) -> None:
        """Change a byte of an entry: 0 to 23 are its head, 24 its data."""
        data = bytearray(self.file(ledger_id).read_bytes())
        data[fmt.HEADER_SIZE + ENTRY * entry_id + byte] ^= 0x40
        self.file(ledger_id).write_bytes(data)


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Disk]:
    """Ten entries "0" to "9" in two ledgers, the first closed, the second left open by a crash."""
    world = LedgerWorld(lambda: FileLedgerStorage(tmp_path / "ledgers"))
    disk = Disk(world, tmp_path / "ledgers")
    first = await disk.open()
    await first.ledger.open_cursor("reader", "earliest")
    await first.append_numbers(5)
    first.ledger.settings = replace(STOP, max_entries_per_ledger=100)
    await first.append("5", "6", "7", "8", "9")
    yield disk
    await world.close()


async def texts_until_damage(owner: Owner, start: Position = EARLIEST) -> tuple[list[str], LedgerError | None]:
    """Read on until nothing comes any more, or until an error."""
    found: list[str] = []
    while True:
        try:
            group = await owner.ledger.read(start, 7, 1 << 20)
        except LedgerError as error:
            return found, error
        if not group:
            return found, None
        found += [entry.data.decode() for entry in group]
        start = Position(group[-1].position.ledger_id, group[-1].position.entry_id + 1)


@pytest.mark.parametrize(("ledger", "entry"), [(1, 0), (1, 2), (1, 4), (2, 0), (2, 3)])
@pytest.mark.parametrize("byte", [0, 9, 24], ids=["length", "time", "data"])
async def test_reading_stops_before_the_damage_and_goes_on_behind_it(
    disk: Disk, ledger: int, entry: int, byte: int
) -> None:
    """Entries keep their positions; the error names file and positions, the log too, and what to do."""
    disk.flip(ledger, entry, byte)
    with structlog.testing.capture_logs() as logs:
        owner = await disk.open()
        damaged = (ledger - 1) * 5 + entry
        found, error = await texts_until_damage(owner)
    assert found == [str(n) for n in range(damaged)]
    assert isinstance(error, LedgerCorruptedError)
    assert error.entries == (entry, entry)
    assert "barycenter ledger repair" in str(error)
    behind, error = await texts_until_damage(owner, Position(ledger, entry + 1))
    assert (behind, error) == ([str(n) for n in range(damaged + 1, 10)], None)
    (told,) = [each for each in logs if each["event"] == "ledger_damaged"]
    assert (told["log_level"], told["topic"], told["file"], told["positions"]) == (
        "error", str(TOPIC), str(disk.file(ledger)), f"{ledger}:{entry}",
    )  # fmt: skip
    assert [(each.file, each.positions) for each in owner.ledger.damaged_ledgers] == [
        (str(disk.file(ledger)), [f"{ledger}:{entry}"])
    ]


@pytest.mark.parametrize(("ledger", "entry"), [(1, 0), (1, 4), (2, 0), (2, 3), (2, 4)])
@pytest.mark.parametrize("byte", [0, 24], ids=["length", "data"])
async def test_what_is_damaged_is_skipped_if_that_is_set(disk: Disk, ledger: int, entry: int, byte: int) -> None:
    """The rest is read, cursors pass the gap, the backlog becomes 0, consumed ledgers go."""
    disk.flip(ledger, entry, byte)
    owner = await disk.open(SKIP)
    damaged = (ledger - 1) * 5 + entry
    found, error = await texts_until_damage(owner)
    assert (found, error) == ([str(n) for n in range(10) if n != damaged], None)
    cursor = owner.ledger.cursors["reader"]
    assert cursor.backlog.entries == 9
    places = [Position(n // 5 + 1, n % 5) for n in range(10) if n != damaged]
    assert cursor.ack_individual(reversed(places)) == 9
    assert cursor.backlog == (0, 0)
    assert cursor.acked_ranges == []
    assert cursor.mark_delete == owner.ledger.last_position == places[-1]
    await owner.settle()
    assert not disk.file(1).exists()
    await owner.append("behind")
    assert (await texts_until_damage(owner, cursor.first_unacked))[0] == ["behind"]


async def test_the_setting_holds_for_a_topic_that_is_open(disk: Disk) -> None:
    disk.flip(1, 2, 0)
    owner = await disk.open()
    assert (await texts_until_damage(owner))[0] == ["0", "1"]
    owner.ledger.settings = SKIP
    assert (await texts_until_damage(owner))[0] == [str(n) for n in range(10) if n != 2]


@pytest.mark.parametrize("ledger", [1, 2])
@pytest.mark.parametrize("how", ["absent", "empty", "foreign"])
async def test_a_ledger_that_is_not_there_keeps_none_of_the_others(disk: Disk, ledger: int, how: str) -> None:
    """By default reading stops at it; when skipping it is passed over; the topic can be written to."""
    if how == "absent":
        disk.file(ledger).unlink()
    else:
        disk.file(ledger).write_bytes(b"" if how == "empty" else b"no ledger" * 50)
    owner = await disk.open()
    found, error = await texts_until_damage(owner)
    assert found == [str(n) for n in range((ledger - 1) * 5)]
    assert isinstance(error, LedgerCorruptedError | LedgerNotFoundError)
    assert str(disk.file(ledger)) in str(error)
    assert "barycenter ledger repair" in str(error)
    assert [each.ledger_id for each in owner.ledger.damaged_ledgers] == [ledger]
    await owner.append("more")
    owner.ledger.settings = SKIP
    rest = [str(n) for n in range(10) if n // 5 + 1 != ledger]
    assert (await texts_until_damage(owner))[0] == [*rest, "more"]


async def test_a_ledger_that_comes_back_is_read(disk: Disk) -> None:
    """What cannot be recovered is not given up: its file restored, all is there again."""
    content = disk.file(2).read_bytes()
    disk.file(2).unlink()
    await (await disk.open()).ledger.close()
    disk.file(2).write_bytes(content)
    assert await texts_until_damage(await disk.open()) == ([str(n) for n in range(10)], None)


@pytest.mark.parametrize("how", ["head", "absent", "foreign"])
@pytest.mark.parametrize("ledger", [1, 2])
async def test_a_damaged_topic_can_be_deleted(disk: Disk, ledger: int, how: str) -> None:
    if how == "head":
        disk.flip(ledger, 2, 0)
    elif how == "absent":
        disk.file(ledger).unlink()
    else:
        disk.file(ledger).write_bytes(b"no ledger" * 50)
    owner = await disk.open()
    await owner.ledger.delete()
    assert list(disk.folder.rglob("*.ledger")) == []
    assert await disk.world.connect().get(managed_ledger_path(TOPIC)) is None


@pytest.mark.parametrize("lost", [[0], [2, 3], [4], [5, 6], [9], [3, 4, 5, 9], list(range(5)), list(range(10))])
async def test_a_repaired_topic_is_read_to_its_end_without_any_setting(disk: Disk, lost: list[int]) -> None:
    """Positions stay, subscriptions skip removed entries, also after a restart without reads since."""
    for number in lost:
        disk.flip(number // 5 + 1, number % 5, 0)
    for ledger_id, entries in ((1, 5), (2, None)):
        found = inspect(str(disk.folder), ledger_id, entries)
        if found.state is not FileState.WHOLE:
            repair(found, epoch=disk.epoch)
    left = [n for n in range(10) if n not in lost]
    owner = await disk.open()
    for n in left:
        assert (await owner.ledger.read(Position(n // 5 + 1, n % 5), 1, 1000))[0].data == str(n).encode()
    assert await texts_until_damage(owner) == ([str(n) for n in left], None)
    assert list(owner.ledger.damaged_ledgers) == []
    cursor = owner.ledger.cursors["reader"]
    cursor.ack_individual([Position(n // 5 + 1, n % 5) for n in left])
    await owner.settle()
    assert cursor.backlog == (0, 0)
    await owner.ledger.close()
    again = await disk.open()
    assert await texts_until_damage(again, again.ledger.cursors["reader"].first_unacked) == ([], None)
    assert again.ledger.cursors["reader"].backlog == (0, 0)
    await again.append("behind")
    assert (await texts_until_damage(again, again.ledger.cursors["reader"].first_unacked))[0] == ["behind"]


async def test_much_damage_is_told_once_and_in_a_line_of_bounded_length(tmp_path: Path) -> None:
    """Every other entry's data is damaged: the first read finds it, the log has it once, and skipping is quick."""
    world = LedgerWorld(lambda: FileLedgerStorage(tmp_path / "ledgers"))
    count = 3000
    owner = await world.open(1, settings=replace(STOP, max_entries_per_ledger=count))
    await owner.append(*(f"{n:04}" for n in range(count)))
    await owner.settle()  # the ledger is full and closed: its data is not read when it is opened
    file = tmp_path / "ledgers" / "000000" / f"{1:012x}.ledger"
    data = bytearray(file.read_bytes())
    size = fmt.ENTRY_HEADER_SIZE + 4
    for at in range(0, count, 2):
        data[fmt.HEADER_SIZE + size * at + fmt.ENTRY_HEADER_SIZE] ^= 1
    file.write_bytes(data)
    await owner.ledger.close()
    with structlog.testing.capture_logs() as logs:
        again = await world.open(2, settings=SKIP)
        assert await again.texts() == [f"{n:04}" for n in range(1, count, 2)]
    (told,) = [each for each in logs if each["event"] == "ledger_damaged"]
    assert told["positions"].endswith("1:38 and 1480 more ranges")
    assert len([each for each in logs if each["event"] == "entries_skipped"]) == 1
    await world.close()


@pytest.mark.parametrize("ledger", [1, 2])
async def test_what_a_hand_can_mend_is_never_skipped(disk: Disk, ledger: int) -> None:
    """A folder in the file's place, as a file without rights: reading waits; put back, all is there again."""
    file = disk.file(ledger)
    aside = file.rename(file.with_suffix(".aside"))
    file.mkdir()
    owner = await disk.open(SKIP)
    found, error = await texts_until_damage(owner)
    assert (found, type(error)) == ([str(n) for n in range((ledger - 1) * 5)], LedgerUnreadableError)
    assert str(file) in str(error)
    await owner.append("more")
    file.rmdir()
    aside.rename(file)
    if ledger == 2:  # it was not recovered, so that nobody knows its length before the topic is opened anew
        assert (await texts_until_damage(owner))[0] == ["0", "1", "2", "3", "4"]
        await owner.ledger.close()
        owner = await disk.open(SKIP)
    assert await texts_until_damage(owner) == ([*map(str, range(10)), "more"], None)


async def test_a_ledger_that_comes_back_under_an_open_topic_is_not_read_in_part(disk: Disk) -> None:
    aside = disk.file(2).rename(disk.folder / "aside")
    owner = await disk.open()
    await owner.append("more")
    aside.rename(disk.file(2))
    assert (await texts_until_damage(owner))[0] == ["0", "1", "2", "3", "4"]
    await owner.ledger.close()
    assert await texts_until_damage(await disk.open()) == ([*map(str, range(10)), "more"], None)
