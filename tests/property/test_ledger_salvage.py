"""Whatever happens to the bytes of a ledger file, every intact entry is found, at its own position, and kept by a
repair."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pulsar_barycenter.ledger.errors import LedgerCorruptedError
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.files.folder import ledger_path
from pulsar_barycenter.ledger.files.repair import FileState, inspect, repair
from pulsar_barycenter.ledger.files.salvage import salvage
from support.short_forms import examples

LEDGER_ID = 77
ENTRY = st.tuples(st.binary(max_size=60), st.integers(0, 2**32 - 1), st.integers(0, 2**62))
ENTRIES = st.lists(ENTRY, min_size=1, max_size=25)
Items = list[tuple[bytes, int, int]]

FLIP = st.tuples(st.just("flip"), st.integers(0, 4000), st.integers(1, 255))
BLOCK = st.tuples(st.just("zero"), st.integers(0, 4000), st.integers(1, 300))
NOISE = st.tuples(st.just("noise"), st.integers(0, 4000), st.integers(1, 300))
END = st.tuples(st.just("cut"), st.integers(0, 4000), st.just(0))
DAMAGE = st.lists(st.one_of(FLIP, BLOCK, NOISE, END), max_size=4)


def written(items: Items, *, version: int = fmt.VERSION) -> tuple[bytearray, list[int]]:
    """Return a closed ledger's file, all of it durable, and the offsets of its entries, with the end of the last."""
    body = bytearray()
    begins = [fmt.HEADER_SIZE]
    heads = fmt.Heads.of(LEDGER_ID, version)
    for entry_id, item in enumerate(items):
        body += b"".join(fmt.encode_entries([item], heads, entry_id))
        begins.append(fmt.HEADER_SIZE + len(body))
    file = bytearray(fmt.encode_header(LEDGER_ID, 3)) + body
    file[fmt.MARK_OFFSET : fmt.HEADER_SIZE] = fmt.encode_mark(len(file))
    return file, begins


def damaged(file: bytearray, steps: list[tuple[str, int, int]], *, header_too: bool = True) -> bytearray:
    """Return the file after `steps`; their offsets count from the first entry, unless `header_too`."""
    result = bytearray(file)
    for kind, place, amount in steps:
        at = min(place if header_too else place + fmt.HEADER_SIZE, len(result))
        if kind == "cut":
            del result[max(at, fmt.HEADER_SIZE) :]
        elif kind == "flip" and at < len(result):
            result[at] ^= amount
        else:
            stop = min(at + amount, len(result))
            result[at:stop] = bytes((i * 37 + amount) % 256 if kind == "noise" else 0 for i in range(stop - at))
    return result


def examined(file: bytearray, entry_count: int | None) -> fmt.Scan:
    def read(at: int, length: int) -> bytes:
        return bytes(file[at : at + length])

    try:
        header = fmt.decode_header("file", read(0, fmt.HEADER_SIZE), LEDGER_ID)
    except LedgerCorruptedError:
        return salvage(read, len(file), LEDGER_ID, None, entry_count=entry_count)
    return salvage(read, len(file), LEDGER_ID, header, entry_count=entry_count)


def kept(scan: fmt.Scan, file: bytearray) -> dict[int, tuple[bytes, int, int]]:
    """Return the entries that a salvage found, by id."""
    assert scan.offsets is not None
    found = {}
    for entry_id, offset in enumerate(scan.offsets):
        if offset:
            size, num_messages, publish_time_ms = scan.index.info(entry_id)
            begin = offset + fmt.ENTRY_HEADER_SIZE
            found[entry_id] = (bytes(file[begin : begin + size]), num_messages, publish_time_ms)
    return found


def intact(items: Items, begins: list[int], before: bytearray, after: bytearray) -> dict[int, tuple[bytes, int, int]]:
    """Return the entries whose bytes are unchanged."""
    return {
        entry_id: item
        for entry_id, item in enumerate(items)
        if after[begins[entry_id] : begins[entry_id + 1]] == before[begins[entry_id] : begins[entry_id + 1]]
    }


@settings(max_examples=examples(400))
@given(ENTRIES, DAMAGE)
def test_a_closed_ledger_keeps_exactly_its_whole_entries(items: Items, steps: list[tuple[str, int, int]]) -> None:
    """Flipped bytes, blocks of zeros and of noise, truncation, in the header too: intact entries are found, others
    are reported as missing, each at its position."""
    file, begins = written(items)
    broken = damaged(file, steps)
    scan = examined(broken, len(items))
    expected = intact(items, begins, file, broken)
    assert kept(scan, broken) == expected
    assert len(scan.index) == len(items)
    lost = {entry_id for damage in scan.damage for entry_id in range(damage.first, damage.last + 1)}
    assert lost == set(range(len(items))) - set(expected)
    assert all(damage.exact for damage in scan.damage)


@settings(max_examples=examples(400))
@given(ENTRIES, DAMAGE)
def test_a_ledger_left_open_keeps_exactly_its_whole_entries(items: Items, steps: list[tuple[str, int, int]]) -> None:
    """Where the number of entries is unknown, the same holds up to the last intact one."""
    file, begins = written(items)
    broken = damaged(file, steps)
    scan = examined(broken, None)
    expected = intact(items, begins, file, broken)
    assert kept(scan, broken) == expected
    lost = {entry_id for damage in scan.damage for entry_id in range(damage.first, damage.last + 1)}
    last = max(expected, default=-1)
    assert {entry_id for entry_id in lost if entry_id <= last} == set(range(last + 1)) - set(expected)
    if len(broken) == len(file) and last < len(items) - 1:
        assert last + 1 in lost


@settings(max_examples=examples(300))
@example([(bytes(24), 1, 1)] * 2 + [(b"b", 1, 1)] * 3, [("zero", 0, 93), ("cut", 146, 0)])  # cut where an entry ends
@given(ENTRIES, DAMAGE)
def test_a_file_of_version_1_loses_no_whole_entry(items: Items, steps: list[tuple[str, int, int]]) -> None:
    """Its entries do not contain their number: all are found in order, none before its position; at its position
    unless the salvage reports a number as uncertain."""
    file, begins = written(items, version=1)
    file[8] = 1
    identity = bytes(file[:32])
    file[32:36] = fmt._CRC.pack(fmt.crc32c(identity))
    file[fmt.MARK_OFFSET : fmt.HEADER_SIZE] = bytes(4) + len(file).to_bytes(8, "little")
    broken = damaged(file, steps, header_too=False)
    scan = examined(broken, len(items))
    expected = intact(items, begins, file, broken)
    found = kept(scan, broken)
    assert list(found.values()) == list(expected.values())
    assert all(there >= was for there, was in zip(found, expected, strict=True))
    if all(damage.exact for damage in scan.damage):
        assert list(found) == list(expected)


@given(ENTRIES, st.data())
def test_entries_marked_as_gone_are_known_as_such(items: Items, data: st.DataObject) -> None:
    """Entries that a repair has marked are no damage, and are reported as removed."""
    gone = data.draw(st.sets(st.integers(0, len(items) - 1)))
    heads = fmt.Heads.of(LEDGER_ID)
    body = b"".join(
        fmt.encode_gone(heads, entry_id, 1)
        if entry_id in gone
        else b"".join(fmt.encode_entries([item], heads, entry_id))
        for entry_id, item in enumerate(items)
    )
    file = bytearray(fmt.encode_header(LEDGER_ID, 3)) + body
    file[fmt.MARK_OFFSET : fmt.HEADER_SIZE] = fmt.encode_mark(len(file))
    header = fmt.decode_header("file", bytes(file[: fmt.HEADER_SIZE]), LEDGER_ID)
    quick = fmt.scan("file", lambda at, n: bytes(file[at : at + n]), len(file), header, with_data=True)
    slow = examined(file, None)
    for scan in (quick, slow):
        assert {at for first, last in scan.gone for at in range(first, last + 1)} == gone
        assert not scan.damage
        assert len(scan.index) == len(items)


async def read_back(root: str, entry_count: int | None) -> tuple[dict[int, tuple[bytes, int, int]], set[int]]:
    """Open the ledger as a broker does; return its entries by id, and the ids of removed ones."""
    storage = FileLedgerStorage(root)
    try:
        if entry_count is None:
            reader = await storage.fence(LEDGER_ID, epoch=9)
        else:
            reader = await storage.open(LEDGER_ID, entry_count=entry_count)
        assert not reader.damage
        gone = {at for first, last in reader.gone for at in range(first, last + 1)}
        found = {}
        for at in set(range(reader.entry_count)) - gone:
            (data,) = await reader.read(at, at, 1 << 20)
            found[at] = (data, *(await reader.info(at))[1:])
        return found, gone
    finally:
        await storage.close()


@settings(max_examples=examples(150), deadline=None)
@given(ENTRIES, DAMAGE, st.booleans())
def test_a_repair_keeps_exactly_what_is_whole(items: Items, steps: list[tuple[str, int, int]], closed: bool) -> None:
    """A check reports it before; repairing again finds nothing to do; the damaged file is kept unchanged."""
    file, begins = written(items)
    broken = damaged(file, steps)
    entry_count = len(items) if closed else None
    expected = intact(items, begins, file, broken)
    with tempfile.TemporaryDirectory() as root:
        path = Path(ledger_path(root, LEDGER_ID))
        path.parent.mkdir(parents=True)
        path.write_bytes(broken)
        before = inspect(root, LEDGER_ID, entry_count)
        told = {at for first, last in before.readable for at in range(first, last + 1)}
        assert told == set(expected)
        if before.state is FileState.WHOLE:
            assert len(expected) == len(items)
        else:
            kept = repair(before, epoch=4)
            assert kept is not None
            assert Path(kept).read_bytes() == broken
        found, gone = asyncio.run(read_back(root, entry_count))
        assert found == expected
        if closed:
            assert gone == set(range(len(items))) - set(expected)
        else:
            last = max(expected, default=-1)
            assert {at for at in gone if at <= last} == set(range(last + 1)) - set(expected)
        after = inspect(root, LEDGER_ID, entry_count)
        assert after.state is FileState.WHOLE
        assert len(list(path.parent.iterdir())) == 1 + (before.state is not FileState.WHOLE)
