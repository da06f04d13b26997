"""The top-level packages and their parts: a module imports what is listed earlier on this page, never what is later.

Imports for type checking and imports inside functions count like all others.
"""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "pulsar_barycenter"

PACKAGES = """
naming        -
config        -
protocol      -
credentials   -
html_pages    -
terminal      -
whole_files   -
bounds        -
metadata      config bounds
bookkeeper    naming bounds metadata
load          naming config
ledger        metadata naming bounds bookkeeper
cluster_logs  naming load
admin         naming credentials bounds load cluster_logs
dashboard     naming config html_pages load cluster_logs
broker        naming config protocol credentials html_pages bounds metadata load ledger cluster_logs admin dashboard
pipeline      naming config whole_files load
history       naming load cluster_logs pipeline
snapshots     naming config bounds metadata load cluster_logs pipeline
replay        naming config load
observer      naming config terminal whole_files bounds load cluster_logs admin
lab           naming config html_pages terminal whole_files load cluster_logs pipeline history snapshots replay observer
doctor        naming config bounds metadata load ledger admin observer
status        naming config load doctor
operations    naming bounds whole_files load cluster_logs admin snapshots observer
balancer      naming config html_pages whole_files bounds load cluster_logs admin snapshots observer doctor
              operations
watch         naming config terminal whole_files load cluster_logs admin html_pages snapshots observer operations
              balancer dashboard status
questions     naming terminal metadata load cluster_logs admin pipeline snapshots observer doctor status operations
screen        naming terminal load cluster_logs dashboard observer status questions
strategies    config load snapshots
standalone    config whole_files
demo          naming config html_pages load cluster_logs admin pipeline replay standalone
run           config protocol credentials terminal metadata bookkeeper load ledger cluster_logs broker pipeline
              standalone
testing       naming config admin broker standalone run
cli           naming config credentials html_pages terminal whole_files metadata load ledger cluster_logs admin broker
              pipeline
              snapshots replay observer lab doctor status operations balancer dashboard watch questions screen
              standalone demo run
"""
"""A package, and the packages that it may import."""

PARTS = """
protocol
    errors pulsar_api pulsar_api_pb2 varints
    frames parsing
    send_runs
    commands
    client_commands
    connection_state

credentials
    bounds errors issuers
    key_material
    authorities
    issuer_http
    client_credentials
    client_authentication
    tls
    passwords
    token_keys
    tokens
    openid

metadata
    errors store
    clock codec conditions files key_locks listeners session settings_file timed_store
    store_client
    cache
    coordination
    grpc_client leader_writes
    memory sqlite
    zookeeper etcd oxia
    open

bookkeeper
    errors
    wire
    metadata
    machines
    client

load
    bundle_load moved_back reasons managers growing_map regexes
    installed strategy_plugins strategy_page policies sizing
    drain_notes
    decisions strategy
    reports
    service_units
    snapshot
    filters
    shedding
    placement
    splitting
    selection
    simple
    strategies
    rounds
    advice

ledger
    errors ledger_settings position
    entry_index disk_full
    reader tail_cache
    caches
    storage
    files bookkeeper_storage
    managed
    pulsar_records
    inspection migration_marks
    folder_identity
    bookie_inspection
    migration foreign_topics

broker
    bounded_log instruments
    changes errors periodic start_errors
    data_watch
    environment
    access
    cluster
    system_topics
    schemas
    namespaces
    topic_policies
    authorization
    ownership
    load_manager
    lookup
    clients
    compaction
    subscriptions
    topics
    partition_changes
    wire
    control
    control_plane
    broker
    rest

broker/load_manager
    context
    contract
    reporting
    pipeline_feed metrics load_data_watch store_writes balancing_configuration
    environment
    decision_executor
    round_driver
    noop_load_manager
    modular
    simple
    extensible
    factory switch

pipeline
    storage
    tables
    reports
    folds
    moves
    held
    load_means
    history load_over_time
    local_sql
    spark
    pulsar_source
    parsing
    batch
    stream
    sharded
    deletion
    running
    job

snapshots
    data_warnings table_folder
    parquet_snapshot pipeline_tables
    snapshot_file
    settings_in_force
    decided_by

replay
    errors
    demand traces
    capacity
    events
    bundles delivery
    reports
    outcome references
    simulator
    measures what_if right_sizing
    synthetic
    inputs
    grid
    scenario scenario_mistakes
    scenarios scenario_files
    experiments
    advice

lab
    errors processes trace_files
    inputs
    shared_input series
    running
    spark_grid board
    results report
    benches advising
    programs

balancer
    options
    judging
    client_errors facts
    state_folder lease
    approval metrics
    right_to_act
    carrying_out rounds
    page
    running

watch
    loads_seen recomputing
    why_moved
    splits_seen
    watched_cluster
    sources recorded_status
    answers
    server
    running

questions
    topics monitored examination
    past_state
    past_decisions history_rows
    explanation

doctor
    finding
    picture
    checks
    catalogue
    reading

cli
    failure
    extras folders formats groups interrupt moments numbers
    asking
    run
    ledger tokens watch
    record
    ask
    operate
    balance
    admin
    pipeline
    history
    replay
    main
"""
"""The parts of a package in order; those on one line may import each other. A name is a folder or a file.

A package without a list here is one part.
"""

PURE_PACKAGES = ("naming", "protocol", "load", "replay")
IMPURE = {"asyncio", "time", "os", "pathlib", "pyarrow", "socket", "threading"}

SPARK_PARTS = {
    f"pipeline.{part}" for part in ["spark", "pulsar_source", "parsing", "batch", "stream", "sharded", "running", "job"]
} | {"history.data_frames", "history.recorded_history", "lab.programs"}
"""The parts of the pipeline that run on Spark, and the modules that take a session of a program."""

STARTS_A_BROKER = {
    "broker.bounded_log",
    "broker.broker",
    "broker.cluster.http_peers",
    "broker.environment",
    "broker.rest.server",
    "broker.start_errors",
}
"""What a command needs to start a broker; all else of a broker it asks by HTTP."""

WRITES_WHAT_IT_COMPUTED = {"cli.pipeline.refold"}
"""It writes tables of its own session of Spark as Parquet."""


def packages() -> dict[str, set[str]]:
    """Each package with the packages that it may import."""
    lines = [line.split() for line in PACKAGES.replace("\n  ", "").strip().splitlines()]
    return {name: set(known) - {"-"} for name, *known in lines}


def parts() -> dict[str, list[list[str]]]:
    """Each folder that has a list of parts, with its lines."""
    found: dict[str, list[list[str]]] = {}
    for block in PARTS.strip().split("\n\n"):
        folder, *lines = block.splitlines()
        found[folder] = [line.split() for line in lines]
    return found


@cache
def files() -> dict[str, Path]:
    """Every module of the house by its dotted name below `pulsar_barycenter`."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(module: str) -> frozenset[str]:
    """All that a module imports, anywhere in it: modules below `pulsar_barycenter` without that prefix."""
    found = set()
    for node in ast.walk(ast.parse(files()[module].read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full.removeprefix("pulsar_barycenter.") in files() else node.module)
    return frozenset(name.removeprefix("pulsar_barycenter.") for name in found)


def own_imports(module: str) -> set[str]:
    return {name for name in imports(module) if name in files() and name != module}


def edges_within(folder: str) -> Iterator[tuple[str, str, str]]:
    """Each import inside a folder, as the importing module and the two children of the folder that it joins."""
    prefix = folder.replace("/", ".") + "."
    for module in files():
        if module.startswith(prefix):
            here = module.removeprefix(prefix).split(".")[0]
            for other in own_imports(module):
                there = other.removeprefix(prefix).split(".")[0]
                if other.startswith(prefix) and there != here:
                    yield module, here, there


@pytest.mark.parametrize("package", sorted(packages()))
def test_a_package_imports_only_what_it_may(package: str) -> None:
    allowed = packages()[package] | {package}
    for module in files():
        if module.split(".")[0] == package:
            used = {name.split(".")[0] for name in own_imports(module)}
            assert used <= allowed, f"{module} imports {sorted(used - allowed)}"


def test_every_room_is_listed_after_those_it_knows() -> None:
    there = {entry.name for entry in SOURCE.iterdir() if entry.is_dir() and entry.name != "__pycache__"}
    assert there == set(packages())
    names = list(packages())
    for package, known in packages().items():
        assert known <= set(names[: names.index(package)])


@pytest.mark.parametrize("folder", sorted(parts()))
def test_a_part_imports_only_earlier_parts(folder: str) -> None:
    order = {name: line for line, names in enumerate(parts()[folder]) for name in names}
    entries = {
        path.stem
        for path in (SOURCE / folder).iterdir()
        if path.name not in {"__init__.py", "__init__.pyi", "__pycache__"}
    }
    assert {name for name in entries if not name.endswith(".typed")} == set(order)
    for module, here, there in edges_within(folder):
        assert order[there] <= order[here], f"{module} of part {here} imports the later {there}"


def test_no_circle_of_files() -> None:
    graph = {module: own_imports(module) for module in files()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def test_the_public_names_of_replay_are_those_of_the_package_that_defines_them() -> None:
    """`replay` is pure and early, its public names read files: it gets them at their first use, and imports nothing."""
    from pulsar_barycenter import replay
    from pulsar_barycenter.lab import programs

    assert not own_imports("replay")
    assert replay.__all__ == programs.__all__
    for name in replay.__all__:
        assert getattr(replay, name) is getattr(programs, name)
    stub = ast.parse((SOURCE / "replay" / "__init__.pyi").read_text())
    assert {alias.name for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names} == set(
        replay.__all__
    )


def test_every_folder_has_a_docstring() -> None:
    for init in SOURCE.rglob("__init__.py"):
        folder = init.parent.relative_to(SOURCE).as_posix()
        assert ast.get_docstring(ast.parse(init.read_text())), f"{folder} does not say what lives there"


def test_pure_rooms_read_no_clock_file_or_loop() -> None:
    for module in files():
        if module.split(".")[0] in PURE_PACKAGES:
            used = {name.split(".")[0] for name in imports(module)} & IMPURE
            assert not used, f"{module} imports {sorted(used)}"


def test_checks_of_the_doctor_and_the_status_read_no_clock_file_or_loop() -> None:
    for module in files():
        if module.startswith(("doctor.checks", "doctor.picture", "doctor.finding", "doctor.catalogue", "status")):
            used = {name.split(".")[0] for name in imports(module)} & IMPURE
            assert not used, f"{module} imports {sorted(used)}"


def test_rows_of_the_route_table_are_data() -> None:
    for module in files():
        if module.startswith("admin.routes"):
            used = {name.split(".")[0] for name in imports(module)} & (IMPURE | {"aiohttp", "broker"})
            assert not used, f"{module} imports {sorted(used)}"


def test_pyspark_is_imported_where_spark_runs() -> None:
    for module in files():
        if any(name.split(".")[0] == "pyspark" for name in imports(module)):
            assert ".".join(module.split(".")[:2]) in SPARK_PARTS, module


def test_commands_parse_and_print_and_leave_arrays_tables_and_locks_to_other_rooms() -> None:
    for module in files():
        if module.split(".")[0] == "cli" and module not in WRITES_WHAT_IT_COMPUTED:
            used = {name.split(".")[0] for name in imports(module)} & {"numpy", "pyarrow", "fcntl"}
            assert not used, f"{module} imports {sorted(used)}"


def test_commands_reach_into_brokers_only_to_start_one() -> None:
    for module in files():
        if module.split(".")[0] in {"cli", "run", "demo", "observer", "doctor", "standalone", "snapshots"}:
            used = {name for name in own_imports(module) if name.split(".")[0] == "broker"}
            assert used <= STARTS_A_BROKER, f"{module} imports {sorted(used - STARTS_A_BROKER)}"
