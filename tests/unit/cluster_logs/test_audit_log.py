"""Administrative changes: recorded, bounded, read page by page, also after the end of a broker."""

from pathlib import Path

from pulsar_barycenter.cluster_logs.audit_log import (
    KEPT,
    MAX_WHY_CHARACTERS,
    Administered,
    AuditLog,
    AuditPage,
    AuditQuestion,
    merged_changes,
    read_changes,
)
from pulsar_barycenter.cluster_logs.record_pages import parse_cursor


def keep(log: AuditLog, at_ms: int, request_id: str = "r", why: str = "") -> Administered:
    return log.record(
        at_ms,
        principal="alice",
        address="127.0.0.1",
        method="PUT",
        route="/admin/v2/tenants/{tenant}",
        about={"tenant": "t"},
        status=204,
        request_id=request_id,
        why=why,
    )


def test_pages_go_back_through_memory_and_files_of_former_lives(tmp_path: Path) -> None:
    former = AuditLog("b:1", tmp_path)
    kept = [keep(former, at) for at in range(1, 6)]
    now = AuditLog("c:1", tmp_path)
    kept += [keep(now, at, f"r{at}") for at in range(6, 11)]
    found: list[Administered] = []
    before = ""
    while True:
        question = AuditQuestion(before=parse_cursor(before) if before else None, limit=3)
        page = read_changes(tmp_path, question, now.recent())
        found = page.changes + found
        if not (before := page.next):
            break
    assert found == kept
    assert read_changes(tmp_path, AuditQuestion(request_id="r7")).changes == [kept[6]]
    assert read_changes(tmp_path, AuditQuestion(since_ms=3, until_ms=4)).changes == kept[2:4]
    assert read_changes(None, AuditQuestion(), now.recent()).changes == kept[5:]


def test_what_is_kept_is_bounded() -> None:
    log = AuditLog("b:1")
    for at in range(KEPT + 5):
        keep(log, at)
    assert [each.number for each in log.recent()] == list(range(6, KEPT + 6))
    assert len(keep(log, 1, why="x" * 2 * MAX_WHY_CHARACTERS).why) == MAX_WHY_CHARACTERS


def test_pages_of_brokers_are_made_one() -> None:
    log = AuditLog("b:1")
    kept = [keep(log, at) for at in range(4)]
    page = merged_changes([AuditPage(changes=kept[2:], next="2:3:b:1"), AuditPage(changes=kept[:2])], 10, {"c:1"})
    assert (page.changes, page.silent) == (kept[2:], ["c:1"])
    assert page.next == "2:3:b:1"
