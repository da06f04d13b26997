"""A ledger file truncated or damaged anywhere returns a prefix of what was written, or reports the damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.ledger.errors import LedgerCorruptedError
from pulsar_barycenter.ledger.files import file_format as fmt

LEDGER_ID = 77
HEADS = fmt.Heads.of(LEDGER_ID)
ENTRY = st.tuples(st.binary(max_size=60), st.integers(0, 2**32 - 1), st.integers(0, 2**62))
GROUPS = st.lists(st.lists(ENTRY, min_size=1, max_size=5), min_size=1, max_size=4)
Items = list[tuple[bytes, int, int]]


def written(groups: list[Items], durable_groups: int) -> tuple[bytes, Items, int, int]:
    """Return the file of `groups`, of which the first are marked durable; its entries, the number of durable ones,
    and where these end."""
    file = bytearray(fmt.encode_header(LEDGER_ID, 3))
    mark = fmt.HEADER_SIZE
    for n, group in enumerate(groups):
        file += b"".join(fmt.encode_entries(group, HEADS, sum(map(len, groups[:n]))))
        if n < durable_groups:
            mark = len(file)
    file[fmt.MARK_OFFSET : fmt.HEADER_SIZE] = fmt.encode_mark(mark)
    items = [item for group in groups for item in group]
    return bytes(file), items, sum(len(group) for group in groups[:durable_groups]), mark


def recovered(file: bytes) -> tuple[Items, fmt.Scan]:
    header = fmt.decode_header("file", file[: fmt.HEADER_SIZE], LEDGER_ID)
    scan = fmt.scan("file", lambda at, n: file[at : at + n], len(file), header, with_data=True)
    data = fmt.decode_entries("file", file[fmt.HEADER_SIZE : scan.end], fmt.HEADER_SIZE, 0, len(scan.index), HEADS)
    count = len(scan.index)
    return list(zip(data, scan.index.message_counts(0, count), scan.index.publish_times(0, count), strict=True)), scan


@given(GROUPS, st.integers(0, 4))
def test_what_was_written_is_recovered(groups: list[Items], durable: int) -> None:
    """A complete file returns every entry with its columns, for any durable mark."""
    file, items, _, _ = written(groups, durable)
    found, scan = recovered(file)
    assert found == items
    assert not scan.torn
    assert not scan.shortened


@given(GROUPS, st.integers(0, 4), st.data())
def test_a_file_cut_anywhere_gives_the_whole_entries_before_the_cut(
    groups: list[Items], durable: int, data: st.DataObject
) -> None:
    """Truncation is a torn tail anywhere; before the durable mark it is reported."""
    file, items, _, mark = written(groups, durable)
    size = data.draw(st.integers(fmt.HEADER_SIZE, len(file)))
    found, scan = recovered(file[:size])
    ends = [fmt.HEADER_SIZE]
    for item in items:
        ends.append(ends[-1] + fmt.ENTRY_HEADER_SIZE + len(item[0]))
    assert len(found) == max(n for n, end in enumerate(ends) if end <= size)
    assert found == items[: len(found)]
    assert scan.torn == (size not in ends)
    assert scan.shortened == (ends[len(found)] < mark)


@given(GROUPS, st.integers(0, 4), st.data())
def test_a_flipped_bit_never_changes_or_hides_a_durable_entry(
    groups: list[Items], durable: int, data: st.DataObject
) -> None:
    """Damage before the durable mark is an error with its offset; after it, it ends the file."""
    file, items, durable_count, mark = written(groups, durable)
    bit = data.draw(st.integers(fmt.HEADER_SIZE * 8, len(file) * 8 - 1))
    damaged = bytearray(file)
    damaged[bit // 8] ^= 1 << bit % 8
    if bit // 8 < mark:
        with pytest.raises(LedgerCorruptedError) as caught:
            recovered(bytes(damaged))
        assert caught.value.file == "file"
        assert caught.value.offset <= bit // 8
    else:
        found, scan = recovered(bytes(damaged))
        assert scan.torn
        assert durable_count <= len(found) < len(items)
        assert found == items[: len(found)]


@given(GROUPS, st.data())
def test_a_flipped_bit_in_the_header_is_told_or_harmless(groups: list[Items], data: st.DataObject) -> None:
    """No damage to the header hides entries of a complete file."""
    file, items, _, _ = written(groups, len(groups))
    bit = data.draw(st.integers(0, fmt.HEADER_SIZE * 8 - 1))
    damaged = bytearray(file)
    damaged[bit // 8] ^= 1 << bit % 8
    try:
        found, _ = recovered(bytes(damaged))
    except LedgerCorruptedError:
        return
    assert found == items


@given(GROUPS, st.data())
def test_a_group_that_reached_the_disk_in_part_is_cut(groups: list[Items], data: st.DataObject) -> None:
    """In a group that was never marked durable any stretch may be zeros: entries before it stay, nothing is
    invented."""
    file, items, durable_count, mark = written(groups, len(groups) - 1)
    begin = data.draw(st.integers(mark, len(file)))
    end = data.draw(st.integers(begin, len(file)))
    found, _ = recovered(file[:begin] + bytes(end - begin) + file[end:])
    assert len(found) >= durable_count
    assert found == items[: len(found)]


@given(GROUPS)
def test_bytes_of_another_ledger_are_no_entries(groups: list[Items]) -> None:
    """The content of another ledger in a reused disk block does not pass for a tail."""
    own, _, _, _ = written(groups, 0)
    items = [item for group in groups for item in group]
    other = b"".join(fmt.encode_entries(items, fmt.Heads.of(LEDGER_ID + 1), 0))
    found, scan = recovered(own[: fmt.HEADER_SIZE] + other)
    assert found == []
    assert scan.torn


@given(GROUPS, st.integers(1, 200))
def test_small_windows_find_the_same(groups: list[Items], window: int) -> None:
    """A scan piece by piece equals a scan of the whole file."""
    file, items, _, _ = written(groups, len(groups))
    header = fmt.decode_header("file", file[: fmt.HEADER_SIZE], LEDGER_ID)

    def read(at: int, length: int) -> bytes:
        return file[at : at + length]

    before = fmt._WINDOW
    try:
        fmt._WINDOW = window
        scan = fmt.scan("file", read, len(file), header, with_data=True)
    finally:
        fmt._WINDOW = before
    assert len(scan.index) == len(items)
    assert scan.end == len(file)
