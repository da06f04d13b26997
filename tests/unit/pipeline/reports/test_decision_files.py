"""Decision logs read piece by piece: each line once, through rotation, partly written lines and invalid content."""

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.cluster_logs.decision_log import DecisionLog, DecisionRecord
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.pipeline.reports import decision_files
from pulsar_barycenter.pipeline.reports.decision_files import read_decisions
from pulsar_barycenter.pipeline.storage.files import LocalStorage

MINUTE_MS = 60_000


def line(number: int, *, by: str = "b:1", at: int = 5) -> bytes:
    record = DecisionRecord(at=at, by=by, number=number, kind="shed", reason=Reason(code=Code.BALANCED), sentence="s")
    return msgspec.json.encode(record) + b"\n"


def log_folder(data: Path) -> Path:
    folder = data / "decisions"
    folder.mkdir()
    return folder


def numbers(data: Path, offsets: dict[str, int]) -> tuple[list[int], dict[str, int]]:
    found = read_decisions(LocalStorage(data), offsets)
    return [row["number"] for row in found.rows], found.offsets


@settings(max_examples=50)
@given(st.lists(st.one_of(st.integers(1, 40), st.just(0)), max_size=30), st.integers(1, 200))
def test_each_line_is_read_once_however_the_file_grows(tmp_path_factory: object, steps: list[int], cut: int) -> None:
    """The file grows by so many bytes at a time, lines cut anywhere; 0 renames it and begins a new one."""
    data = Path(tmp_path_factory.mktemp("data"))  # type: ignore[attr-defined]
    folder = log_folder(data)
    content = b"".join(line(number) for number in range(1, 41))
    file, read, written = folder / "b_1.jsonl", [], 0
    offsets: dict[str, int] = {}
    for step in steps:
        if step == 0:
            if content[:written].endswith(b"\n") and file.exists():
                new, offsets = numbers(data, offsets)
                read += new
                os.replace(file, folder / "b_1.jsonl.1")
        else:
            with file.open("ab") as stream:
                stream.write(content[written : written + step * cut])
            written = min(len(content), written + step * cut)
        new, offsets = numbers(data, offsets)
        read += new
    assert read == list(range(1, content[:written].count(b"\n") + 1))


def test_a_renamed_log_is_read_to_its_end(tmp_path: Path) -> None:
    """Lines that came between the last reading and the renaming are found in `.jsonl.1`."""
    folder = log_folder(tmp_path)
    file = folder / "b_1.jsonl"
    file.write_bytes(line(1) + line(2))
    _, offsets = numbers(tmp_path, {})
    file.write_bytes(line(1) + line(2) + line(3))
    file.rename(folder / "b_1.jsonl.1")
    file.write_bytes(line(4))
    assert numbers(tmp_path, offsets)[0] == [3, 4]


def test_rows_say_what_the_record_says(tmp_path: Path) -> None:
    """The strategy, the reason as JSON and its code; a decision of a later version has fields to ignore."""
    folder = log_folder(tmp_path)
    log = DecisionLog("b:1", folder)
    reason = Reason(code=Code.ABOVE_LIMIT, strategy="OverloadShedder", detail="d")
    about = {"bundle": "a/b/0x0_0x1", "source": "b:1", "destination": "c:1", "manager": "simple"}
    record = log.record(1_700_000_000_123, "unload", reason, **about)
    later = line(9, by="c:1").replace(b"{", b'{"ofTheFuture":[1],', 1)
    (folder / "c_1.jsonl").write_bytes(later)
    found = read_decisions(LocalStorage(tmp_path), {})
    first, second = found.table.sort_by("by").to_pylist()
    assert msgspec.json.decode(first["reason"], type=Reason) == reason
    assert first["at"].timestamp() == 1_700_000_000.123
    expected = msgspec.structs.asdict(record) | {"code": "above_limit", "principal": None, "request": None}
    assert {k: v for k, v in first.items() if k not in ("at", "reason")} == {
        k: v for k, v in expected.items() if k not in ("at", "reason", "request_id", "epoch")
    }
    assert (second["number"], second["code"]) == (9, "balanced")
    assert second["manager"] is None, "its log does not say"
    assert found.times == {"unload": [1_700_000_000_123], "shed": [5]}


def test_what_a_person_asked_for_says_who_and_by_which_request(tmp_path: Path) -> None:
    log = DecisionLog("b:1", log_folder(tmp_path))
    asked = {"principal": "alice", "request": "PUT /admin/v2/namespaces/a/b/0x0_0x1/unload"}
    log.record(1_000, "unload", Reason(code=Code.ADMIN, detail="alice"), bundle="a/b/0x0_0x1", **asked)
    (row,) = read_decisions(LocalStorage(tmp_path), {}).table.to_pylist()
    assert {name: row[name] for name in (*asked, "manager")} == {**asked, "manager": None}


def test_rubbish_is_refused_with_its_line_and_the_rest_is_read(tmp_path: Path) -> None:
    """Not JSON, no reason, a time that no table can contain, a copy; the lines between count."""
    bad = [b"nothing\n", b'{"at":1,"by":"x","number":1,"kind":"shed"}\n', line(7, at=-1), b"\xff\xfe\n"]
    (log_folder(tmp_path) / "x.jsonl").write_bytes(
        b"".join([line(1), bad[0], bad[1], line(2), bad[2], line(2), bad[3], line(3)])
    )
    found = read_decisions(LocalStorage(tmp_path), {})
    assert [row["number"] for row in found.rows] == [1, 2, 3]
    assert [refused.text.encode() for refused in found.refused[:3]] == [each.rstrip(b"\n") for each in bad[:3]]
    assert len(found.refused) == 4
    assert "reason" in found.refused[1].reason


def test_a_log_is_read_up_to_the_time_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces of three lines: as many as it takes, to the end of the one with a later decision, then the rest."""
    monkeypatch.setattr(decision_files, "READ_BYTES", 3 * len(line(10, at=MINUTE_MS)) + 5)
    lines = [line(10 + number, at=number * MINUTE_MS) for number in range(1, 81)]
    (log_folder(tmp_path) / "b_1.jsonl").write_bytes(b"".join(lines))
    storage = LocalStorage(tmp_path)
    first = read_decisions(storage, {}, until_ms=50 * MINUTE_MS)
    read = [row["number"] - 10 for row in first.rows]
    assert read == list(range(1, len(read) + 1))
    assert 50 < len(read) < 56
    assert not first.is_whole
    rest = read_decisions(storage, first.offsets, until_ms=100 * MINUTE_MS)
    assert [row["number"] - 10 for row in rest.rows] == list(range(len(read) + 1, 81))
    assert rest.is_whole


def test_a_line_longer_than_a_piece_is_refused_and_the_rest_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Be it the first or a later one; while it has no end it is left for the next time."""
    monkeypatch.setattr(decision_files, "READ_BYTES", 1000)
    folder, storage = log_folder(tmp_path), LocalStorage(tmp_path)
    (folder / "a_1.jsonl").write_bytes(b"x" * 2500 + b"\n" + line(1))
    (folder / "b_1.jsonl").write_bytes(line(2, by="c") + b"y" * 1700)
    found = read_decisions(storage, {})
    assert sorted(row["number"] for row in found.rows) == [1, 2]
    assert [refused.reason for refused in found.refused] == ["the line has 2,501 bytes, more than 1,000"]
    with (folder / "b_1.jsonl").open("ab") as stream:
        stream.write(b"\n" + line(3, by="c"))
    later = read_decisions(storage, found.offsets)
    assert ([row["number"] for row in later.rows], len(later.refused)) == ([3], 1)


def test_of_two_copies_of_a_log_each_decision_is_read_once(tmp_path: Path) -> None:
    """The shorter copy does not have the longer one read again."""
    folder, storage = log_folder(tmp_path), LocalStorage(tmp_path)
    (folder / "b_1.jsonl").write_bytes(line(1) + line(2))
    (folder / "a_copy.jsonl").write_bytes(line(1))
    found = read_decisions(storage, {})
    assert [row["number"] for row in found.rows] == [1, 2]
    assert read_decisions(storage, found.offsets).rows == []
