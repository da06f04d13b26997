"""The deletion of a tenant's data: nothing names it afterwards, all else reads as before, whenever it was killed."""

from __future__ import annotations

import datetime
import itertools
import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pulsar_barycenter.cli.main import main
from pulsar_barycenter.load.reports.publication import (
    PipelinePublication,
    PublicationChange,
    change_file,
    encode_publication,
)
from pulsar_barycenter.pipeline.deletion.marker import UnfinishedDeletionError, refuse_unfinished
from pulsar_barycenter.pipeline.deletion.names import REDACTED, TenantNames
from pulsar_barycenter.pipeline.deletion.tenant import delete_tenant
from pulsar_barycenter.pipeline.local_sql import run_local_sql
from pulsar_barycenter.pipeline.reports.decision_files import read_decisions
from pulsar_barycenter.pipeline.storage.layout import DELETION, SHARDS, PipelineLayout
from pulsar_barycenter.pipeline.storage.lock import exclusive
from pulsar_barycenter.pipeline.stream.state import StateFolder
from pulsar_barycenter.pipeline.tables.compaction import CompactionSettings, keep_house
from pulsar_barycenter.pipeline.tables.files import Tables, live_files
from pulsar_barycenter.pipeline.tables.formats import open_log
from pulsar_barycenter.pipeline.tables.schemas import TABLES
from pulsar_barycenter.pipeline.tables.table_log import TableFormat
from pulsar_barycenter.standalone.data_directory import DataDirectory, DataDirectoryLock
from support.data_of_before import copied
from support.killed_writer import KilledError, at_each_change
from support.table_engines import example_row, with_polars

TENANT: Final = "acme"
RENAMED: Final = "public/default/0x00000000_0x55555555"
"""The bundle of the stored folder that is the tenant's here."""
OWNED: Final = f"{TENANT}/default/0x00000000_0x55555555"

Rows = dict[str, list[dict[str, Any]]]


def tenants_folder(to: Path, table_format: TableFormat) -> PipelineLayout:
    """The stored folder with a bundle of the tenant in the place of another, and decisions that name the tenant."""
    layout = copied(to)
    for path in layout.root.rglob("*"):
        if path.suffix in (".json", ".jsonl"):
            path.write_bytes(path.read_bytes().replace(RENAMED.encode(), OWNED.encode()))
        elif path.suffix == ".parquet":
            parquet = pq.ParquetFile(path)
            text = json.dumps(parquet.read().to_pylist(), default=str)
            if RENAMED in text:
                rows = msgspec.json.decode(json.dumps(_plain(parquet.read().to_pylist())).replace(RENAMED, OWNED))
                schema = parquet.schema_arrow
                plain = pa.schema([_as_number(field) for field in schema])
                pq.write_table(pa.Table.from_pylist(rows, schema=plain).cast(schema), path)
    archived = layout.archive / "old" / "load-reports" / "2023-11-14"
    archived.mkdir(parents=True)
    report = next(path for path in sorted(layout.report_log.rglob("*.json")) if OWNED in path.read_text())
    (archived / report.name).write_bytes(report.read_bytes())
    layout.quarantine.mkdir(exist_ok=True)
    (layout.quarantine / "batch-000000000001.jsonl").write_text(f'{{"text":"{OWNED}"}}\n{{"text":"another"}}\n')
    (layout.quarantine / "broken.json").write_text(f'{{"lastStats":{{"{OWNED}":')
    _log_decisions(layout)
    log = open_log(layout, table_format, clock_ms=lambda: 0)
    Tables(layout, log).clear_unfinished(2)
    keep_house(
        layout,
        completed_batch=2,
        newest_date="2023-11-16",
        now_s=0,
        settings=CompactionSettings(retention_days=None),
        table_log=log,
    )
    return layout


def _as_number(field: Any) -> Any:
    return field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def _log_decisions(layout: PipelineLayout) -> None:
    """Two logs, read up to their second decision by the newest state: one begins with a line of the tenant."""
    layout.decisions.mkdir(exist_ok=True)
    logs = {"b1": [OWNED, "", "public/x/0x0_0x1"], "b2": ["public/x/0x0_0x1", OWNED, OWNED]}
    said = {"reason": {"code": "drawn", "about": f"{OWNED} and others"}, "request": f"PUT /admin/v2/tenants/{TENANT}"}
    offsets: dict[str, int] = {}
    for read in (2, 3):
        for broker, bundles in logs.items():
            decisions = [
                {"at": number, "by": broker, "number": number, "kind": "unload", "bundle": bundle} | said
                for number, bundle in enumerate(bundles[:read], 1)
            ]
            text = "".join(f"{json.dumps(decision)}\n" for decision in decisions)
            (layout.decisions / f"{broker}.jsonl").write_text(text)
        offsets = offsets or read_decisions(layout, {}).offsets
    states = StateFolder(layout)
    state = states.before(3)
    state.memory.decision_offsets.clear()
    state.memory.decision_offsets.update(offsets)
    states.write(2, state)


def tables_of(layout: PipelineLayout) -> Rows:
    """All rows of others, their texts without the tenant's names."""
    names = TenantNames(TENANT)
    return {
        name: [
            {column: names.redacted(value) if isinstance(value, str) else value for column, value in row.items()}
            for file in live_files(layout.tables, name)
            for row in pq.read_table(file, partitioning=None).to_pylist()
            if not str(row.get("bundle", "")).startswith(f"{TENANT}/")
        ]
        for name in TABLES
    }


def naming(layout: PipelineLayout) -> list[str]:
    """The files that name the tenant, Parquet files by their content."""
    found = []
    for path in layout.root.rglob("*"):
        if not path.is_file():
            continue
        content = path.read_bytes()
        if path.suffix == ".parquet":
            parquet = pq.ParquetFile(path)
            content += repr(parquet.read().to_pylist()).encode() + repr(parquet.metadata.metadata).encode()
        if TENANT.encode() in content or TENANT in path.name:
            found.append(path.relative_to(layout.root).as_posix())
    return found


@pytest.fixture(params=list(TableFormat))
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> PipelineLayout:
    return tenants_folder(tmp_path / "cluster", TableFormat(request.param))


def check_deleted(layout: PipelineLayout, before: Rows, times: dict[Path, int]) -> None:
    assert naming(layout) == []
    assert tables_of(layout) == before
    for name in TABLES:
        if (layout.tables / name / "_delta_log").exists():
            columns = TABLES[name].key
            delta = with_polars(layout.tables, name, columns, TableFormat.DELTA)
            assert delta == with_polars(layout.tables, name, columns, TableFormat.PARQUET)
    state = StateFolder(layout).before(3)
    unread = read_decisions(layout, state.memory.decision_offsets).rows
    assert [(row["by"], row["number"]) for row in unread] == [("b1", 3)]
    published = msgspec.json.decode(layout.publication.read_bytes(), type=PipelinePublication)
    assert "public/default/0x55555555_0xaaaaaaaa" in published.bundle
    assert {path: path.stat().st_mtime_ns for path in times} == times
    refuse_unfinished(layout)


def times_of(layout: PipelineLayout) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in layout.archive.rglob("*.json")}


def test_nothing_names_the_tenant_and_all_else_reads_as_before(layout: PipelineLayout) -> None:
    before, times = tables_of(layout), times_of(layout)
    assert len(naming(layout)) > 10
    deleted = delete_tenant(layout, TENANT, clock_ms=lambda: 0)
    check_deleted(layout, before, times)
    assert deleted.rows["bundle_samples"] > 0
    assert deleted.rows["load_reports"] == 0
    assert deleted.archived_reports == 5
    assert deleted.decision_logs == 3
    again = delete_tenant(layout, TENANT, clock_ms=lambda: 0)
    assert sum(again.rows.values()) + again.reports + again.decision_logs + again.quarantined == 0


def test_rows_of_compacted_files_are_still_of_their_batches(tmp_path: Path) -> None:
    """Batch 1 has only rows of the tenant, batch 2 has both; the tables as of each have what others had."""
    layout = PipelineLayout.of(tmp_path)
    layout.create()
    others = {0: ["a/n/0x0_0x1"], 1: [], 2: ["b/n/0x0_0x1", "c/n/0x0_0x1"], 3: ["d/n/0x0_0x1"]}
    schema = TABLES["bundle_data"].arrow_schema
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for batch, bundles in others.items():
        rows = [example_row("bundle_data", batch, at) | {"bundle": bundle} for bundle in [OWNED, *bundles]]
        Tables(layout).write("bundle_data", batch, pa.Table.from_pylist(rows, schema=schema))
    kept = CompactionSettings(retention_days=None, grace_s=0)
    keep_house(layout, completed_batch=9, newest_date="2026-01-02", now_s=4e9, settings=kept)
    assert delete_tenant(layout, TENANT, clock_ms=lambda: 0).rows["bundle_data"] == 4
    for batch in others:
        found = run_local_sql(layout, "select bundle from bundle_data order by 1", as_of_batch=batch)
        assert found.column("bundle").to_pylist() == [name for each in range(batch + 1) for name in others[each]]


def test_a_deletion_that_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    """At any of its changes, one after the other; the pipeline does not start meanwhile."""
    layout = tenants_folder(tmp_path / "cluster", TableFormat.PARQUET)
    before, times = tables_of(layout), times_of(layout)
    kills = 0
    while True:
        count = itertools.count()

        def kill(count: Any = count, at: int = kills) -> None:
            if next(count) == at % 7 + 1 and at < 60:
                raise KilledError

        with at_each_change(kill):
            try:
                delete_tenant(layout, TENANT, clock_ms=lambda: 0)
                break
            except KilledError:
                kills += 1
                if (layout.root / DELETION / "plan.json").exists():
                    with pytest.raises(UnfinishedDeletionError, match="Finish it with"):
                        refuse_unfinished(layout)
    assert kills > 20
    check_deleted(layout, before, times)


def test_the_command_asks_first_and_refuses_beside_a_running_pipeline(tmp_path: Path) -> None:
    layout = tenants_folder(tmp_path / "cluster", TableFormat.PARQUET)
    arguments = ["pipeline", "delete-tenant", TENANT, "--data", str(layout.root)]
    count = len(naming(layout))
    refused = CliRunner().invoke(main, arguments, input="n\n")
    assert refused.exit_code == 1
    assert "cannot be undone" in refused.output
    with exclusive(layout, clock_ms=lambda: 0):
        running = CliRunner().invoke(main, [*arguments, "--yes"])
    assert running.exit_code == 1
    assert "another process runs the pipeline of" in running.output
    with DataDirectoryLock(DataDirectory(layout.root)):
        held = CliRunner().invoke(main, [*arguments, "--yes"])
    assert held.exit_code == 1
    assert "runs a cluster on" in held.output
    assert len(naming(layout)) == count
    done = CliRunner().invoke(main, [*arguments, "--yes", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["rows"]["decisions"] > 0
    assert naming(layout) == []


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (OWNED, REDACTED),
        (f"persistent://{OWNED}", f"persistent://{REDACTED}"),
        ("PUT /admin/v2/tenants/acme", f"PUT /admin/v2/tenants/{REDACTED}"),
        ("/admin/v2/namespaces/acme/ns/permissions", f"/admin/v2/namespaces/{REDACTED}"),
        ("acme is a word", "acme is a word"),
        ("public/acme/0x00000000_0xffffffff", "public/acme/0x00000000_0xffffffff"),
        ("acme-2/ns/0x00000000_0xffffffff", "acme-2/ns/0x00000000_0xffffffff"),
        ("tenants/acme-2", "tenants/acme-2"),
        ("big-acme/ns", "big-acme/ns"),
    ],
)
def test_names_of_the_tenant_and_no_others_are_taken_out_of_texts(text: str, cleaned: str) -> None:
    names = TenantNames(TENANT)
    assert names.redacted(text) == cleaned
    assert names.mentions(text) == (text != cleaned)


def test_changes_of_the_publication_and_shards_go_and_damaged_files_do_not_stop_it(layout: PipelineLayout) -> None:
    whole = msgspec.json.decode(layout.publication.read_bytes(), type=PipelinePublication)
    newer = msgspec.structs.replace(whole, batch_id=whole.batch_id + 1)
    change = PublicationChange(
        batch_id=newer.batch_id, published_at=newer.published_at, after=whole.id, is_whole=False, changed=newer
    )
    layout.publication.with_name(change_file(layout.publication.name, whole.id)).write_bytes(encode_publication(change))
    block = layout.data / SHARDS / "000000000002-x" / "before-0.arrow"
    block.parent.mkdir(parents=True)
    block.write_bytes(OWNED.encode())
    first, second, *_ = (log := layout.decisions / "b2.jsonl").read_bytes().splitlines(keepends=True)
    log.write_bytes(first + second[:150])  # a crash cut it off below the place that the pipeline has read to
    delete_tenant(layout, "acme", clock_ms=lambda: 0)
    assert naming(layout) == []
    layout.publication.write_text('{"batchId":')
    delete_tenant(layout, "acme", clock_ms=lambda: 0)
    assert not layout.publication.exists()
