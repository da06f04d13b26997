"""EntryIndex answers as a plain list of entries would."""

from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.position import EntryInfo

ENTRIES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5), st.integers(0, 30)), min_size=1, max_size=30)


def index_of(entries: list[tuple[int, int, int]], cut: int) -> EntryIndex:
    index = EntryIndex()
    for part in (entries[:cut], entries[cut:]):
        index.extend([e[0] for e in part], [e[1] for e in part], [e[2] for e in part])
    return index


@given(ENTRIES, st.integers(0, 30), st.data())
def test_sums_and_columns(entries: list[tuple[int, int, int]], cut: int, data: st.DataObject) -> None:
    """Sizes, counts, times and their sums over any range are those of the entries."""
    index = index_of(entries, cut)
    first = data.draw(st.integers(0, len(entries)))
    stop = data.draw(st.integers(first, len(entries)))
    part = entries[first:stop]
    assert [index.bytes_between(n, n + 1) for n in range(first, stop)] == [e[0] for e in part]
    assert index.message_counts(first, stop) == [e[1] for e in part]
    assert list(index.publish_times(first, stop)) == [e[2] for e in part]
    assert index.bytes_between(first, stop) == sum(e[0] for e in part)
    assert index.messages_between(first, stop) == sum(e[1] for e in part)
    assert [index.info(n) for n in range(len(entries))] == [EntryInfo(*e) for e in entries]
    time_ms = data.draw(st.integers(0, 31))
    later = [n for n, e in enumerate(entries) if e[2] >= time_ms]
    assert index.first_published_at_or_after(time_ms) == (later[0] if later else None)
    assert len(index) == len(entries)
    assert index.total_bytes == sum(e[0] for e in entries)


@given(ENTRIES, st.data())
def test_where_a_read_stops(entries: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """At least one entry, then all that keep within the bytes and begin before the messages are reached."""
    index = index_of(entries, 0)
    first = data.draw(st.integers(0, len(entries) - 1))
    stop = data.draw(st.integers(first + 1, len(entries)))
    max_bytes = data.draw(st.integers(0, 200))
    max_messages = data.draw(st.none() | st.integers(1, 20))
    taken, size, messages = 0, 0, 0
    for entry_size, count, _ in entries[first:stop]:
        size += entry_size
        if taken and (size > max_bytes or (max_messages is not None and messages >= max_messages)):
            break
        taken += 1
        messages += count
    assert index.stop_within(first, stop, max_bytes, max_messages) == first + taken
