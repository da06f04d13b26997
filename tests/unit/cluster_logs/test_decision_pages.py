"""The decision logs page by page: complete, bounded, with partly written lines and rotation."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.cluster_logs import record_pages
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog, DecisionRecord, read_decisions
from pulsar_barycenter.cluster_logs.decision_pages import DecisionPage, DecisionQuestion, Span, merged_pages, read_page
from pulsar_barycenter.cluster_logs.record_pages import Key, cursor_of, key_of, parse_cursor
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName

WHY = Reason(code=Code.BALANCED)


def record(at: int, by: str = "a:1", number: int = 1, bundle: str = "") -> DecisionRecord:
    return DecisionRecord(at=at, by=by, number=number, kind="shed", reason=WHY, sentence="…", bundle=bundle)


def write(file: Path, records: list[DecisionRecord]) -> bytes:
    content = b"".join(msgspec.json.encode(each) + b"\n" for each in records)
    file.write_bytes(content)
    return content


def all_pages(folder: Path, limit: int, since_ms: int = 0) -> list[DecisionRecord]:
    found: list[DecisionRecord] = []
    before: Key | None = None
    for _ in range(10_000):
        page = read_page(folder, DecisionQuestion(limit=limit, before=before, since_ms=since_ms))
        assert len(page.decisions) <= limit
        found = page.decisions + found
        if not page.next:
            return found
        assert before is None or parse_cursor(page.next) < before, "each page gets further"
        before = parse_cursor(page.next)
    raise AssertionError("the pages never end")


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=12), st.data())
def test_any_cut_of_a_log_at_any_byte_yields_a_prefix_of_its_entries(times: list[int], data: st.DataObject) -> None:
    records = [record(at, number=number) for number, at in enumerate(sorted(times), 1)]
    with tempfile.TemporaryDirectory() as name:
        content = write(Path(name) / "a_1.jsonl", records)
        cut = data.draw(st.integers(0, len(content)))
        (Path(name) / "a_1.jsonl").write_bytes(content[:cut])
        whole = content[: cut + 1].count(b"\n")  # a line is whole without its end, too
        assert read_page(Path(name), DecisionQuestion()).decisions == records[:whole]


@given(
    st.lists(st.lists(st.integers(0, 400), max_size=25), min_size=1, max_size=3),
    st.integers(1, 7),
    st.integers(0, 300),
    st.sampled_from([200, 500, 100_000]),
    st.sampled_from([0, 1_000]),
)
def test_pages_of_any_size_have_every_decision_once_in_order(
    logs: list[list[int]], limit: int, since_ms: int, block: int, budget: int
) -> None:
    """However few bytes a block and a page have; times within a log may be a little out of order."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_pages, "BLOCK_BYTES", block)
        patch.setattr(record_pages, "MAX_BYTES_READ", budget)
        patch.setattr(record_pages, "CLOCK_SLACK_MS", 20)
        expected = []
        for index, times in enumerate(logs):
            by = f"b{index}:1"
            # out of order by less than the slack
            times = sorted(times, key=lambda at: at + at * 7 % 19)
            records = [record(at, by, number) for number, at in enumerate(times, 1)]
            older = len(records) // 2
            write(Path(name) / f"b{index}_1.jsonl.1", records[:older])
            write(Path(name) / f"b{index}_1.jsonl", records[older:])
            expected += [each for each in records if each.at >= since_ms]
        assert all_pages(Path(name), limit, since_ms) == sorted(expected, key=key_of)


def test_a_page_reads_no_more_than_its_share_of_a_large_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_pages, "MAX_BYTES_READ", 200_000)
    monkeypatch.setattr(record_pages, "BLOCK_BYTES", 4_096)
    records = [record(at * 100_000, number=at, bundle="t/n/0" if at == 5 else "") for at in range(1, 8_001)]
    size = len(write(tmp_path / "a_1.jsonl", records))
    read: list[int] = []
    pread: Callable[[int, int, int], bytes] = os.pread

    def counted(file: int, length: int, place: int) -> bytes:
        found = pread(file, length, place)
        read.append(len(found))
        return found

    monkeypatch.setattr(os, "pread", counted)
    page = read_page(tmp_path, DecisionQuestion(bundle="t/n/0"))
    assert not page.decisions
    assert page.next, "it says that it did not see all"
    assert (page.known_since, page.known_until) == (100_000, 800_000_000)
    assert sum(read) < size / 2
    read.clear()
    page = read_page(tmp_path, DecisionQuestion(until_ms=1_000_000, limit=3))
    assert [each.at for each in page.decisions] == [800_000, 900_000, 1_000_000]
    assert sum(read) < size / 4, "what is later than asked for is passed by"


def test_what_is_no_decision_is_passed_over(tmp_path: Path) -> None:
    content = write(tmp_path / "a_1.jsonl", [record(1), record(2)])
    first, second = content.splitlines(keepends=True)
    nonsense = b'\xff\n\n{"at": 3}\n' + b"[" * 5_000 + b"\n" + b"x" * 3 * record_pages.BLOCK_BYTES + b"\n"
    (tmp_path / "a_1.jsonl").write_bytes(nonsense + first + nonsense + second + nonsense)
    (tmp_path / "b_1.jsonl").mkdir()
    (tmp_path / "c_1.jsonl").write_bytes(b"")
    page = read_page(tmp_path, DecisionQuestion())
    assert [each.at for each in page.decisions] == [1, 2]
    assert read_page(tmp_path / "not there", DecisionQuestion()).decisions == []


def test_a_restarted_broker_begins_a_new_line_after_half_of_one(tmp_path: Path) -> None:
    DecisionLog("a:1", tmp_path).record(1, "shed", WHY)
    with (tmp_path / "a_1.jsonl").open("ab") as file:
        file.write(b'{"at": 2, "by"')
    again = DecisionLog("a:1", tmp_path)
    for at in (3, 4):
        again.record(at, "shed", WHY)
    assert [each.at for each in read_page(tmp_path, DecisionQuestion()).decisions] == [1, 3, 4]
    assert [each.at for each in read_decisions(tmp_path)] == [1, 3, 4]
    assert b"\n\n" not in (tmp_path / "a_1.jsonl").read_bytes()


def test_what_is_logged_and_remembered_counts_once_and_what_is_remembered_alone_counts(tmp_path: Path) -> None:
    log = DecisionLog("a:1", tmp_path)
    log.record(1, "shed", WHY)
    page = read_page(tmp_path, DecisionQuestion(), [*log.recent(), record(2, "b:1")])
    assert [(each.at, each.by) for each in page.decisions] == [(1, "a:1"), (2, "b:1")]
    assert [each.at for each in read_page(None, DecisionQuestion(), [record(5)]).decisions] == [5]


def test_pages_of_several_brokers_become_one_that_has_no_gap() -> None:
    full = DecisionPage(decisions=[record(5), record(6)], next=cursor_of((5, "a:1", 1)), known_since=2)
    other = DecisionPage(decisions=[record(at, "b:1") for at in (1, 5, 7)], known_until=7)
    page = merged_pages([full, other], 10, ["c:1"])
    assert [(each.at, each.by) for each in page.decisions] == [(5, "a:1"), (5, "b:1"), (6, "a:1"), (7, "b:1")]
    assert (parse_cursor(page.next), page.known_since, page.known_until, page.silent) == ((5, "a:1", 1), 2, 7, ["c:1"])
    assert [each.at for each in merged_pages([full, other], 1).decisions] == [7]


@pytest.mark.parametrize("text", ["", "1", "1:2", "a:1:b", "-1:1:b", "1" * 30 + ":1:b"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the cursor"):
        parse_cursor(text)


def test_a_cursor_is_read_as_it_was_written() -> None:
    assert parse_cursor(cursor_of((12, "host:8080", 3))) == (12, "host:8080", 3)


def test_a_bundle_was_covered_by_what_it_was_split_from() -> None:
    part = Span.of_bundle(Bundle.parse("t/n/0x80000000_0xffffffff"))
    assert part.is_covered_by("t/n/0x80000000_0xffffffff")
    assert part.is_covered_by("t/n/0x00000000_0xffffffff")
    assert not part.is_covered_by("t/n/0x80000000_0xc0000000")
    assert not part.is_covered_by("t/nn/0x00000000_0xffffffff")
    assert not part.is_covered_by("t/n/nonsense")
    topic = TopicName.parse("persistent://t/n/orders")
    both = [f"t/n/{each}" for each in ("0x00000000_0x80000000", "0x80000000_0xffffffff")]
    assert [Span.of_topic(topic).is_covered_by(each) for each in both].count(True) == 1
