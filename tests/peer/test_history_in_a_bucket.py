"""A recorded history in a bucket of a real S3 server, opened and replayed by Arrow alone."""

from pathlib import Path

import pytest
from pyarrow import fs

from pulsar_barycenter.history import open_history
from pulsar_barycenter.replay import recorded_load
from support.maven import PeerUnavailableError
from support.s3_server import s3_server

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "history"

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("stores"), pytest.mark.timeout(1800)]


def test_a_history_in_a_bucket_is_that_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    try:
        with s3_server(tmp_path / "s3.log") as server:
            for name, value in server.environment.items():
                monkeypatch.setenv(name, value)
            bucket = server.address.removeprefix("s3a://")
            fs.copy_files(str(EXAMPLE), f"{bucket}/cluster", destination_filesystem=server.arrow())
            there, here = open_history(f"{server.address}/cluster"), open_history(EXAMPLE)
            assert there.address == f"{server.address}/cluster"
            for name in here.table_names:
                assert there.table(name).equals(here.table(name)), name
            assert there.top(3).equals(here.top(3))
            load = recorded_load(f"{server.address}/cluster")
            assert load.bundles == recorded_load(EXAMPLE).bundles
            assert any("settings are only read from a folder" in warning for warning in load.warnings)
    except PeerUnavailableError as error:
        if request.config.getoption("--peer-required"):
            raise
        pytest.skip(str(error))
