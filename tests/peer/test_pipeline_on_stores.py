"""The pipeline where its data lies in HDFS or in an object store: real servers, and Hadoop's own clients of them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support import store_probe
from support.pulsar_peer import PeerUnavailableError
from support.stores import STORES, Store

pytestmark = [pytest.mark.peer, pytest.mark.pipeline, pytest.mark.xdist_group("stores")]

_DEADLINE_S = 120.0


@pytest.fixture(scope="module", params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with ExitStack() as running:
        try:
            started = running.enter_context(STORES[request.param](tmp_path_factory.mktemp(request.param)))
        except PeerUnavailableError as error:
            if request.config.getoption("--peer-required"):
                raise
            pytest.skip(str(error))
        yield started


def test_a_file_is_made_once_and_tables_are_written_over(store: Store) -> None:
    """What the pipeline builds on: of eight that make one file at once one succeeds; no rename replaces a file."""
    command = [sys.executable, store_probe.__file__, f"{store.address}/probe", json.dumps(dict(store.conf))]
    told = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
    assert told.returncode == 0, told.stderr[-4000:]
    assert json.loads(told.stdout) == {"rows": list(range(20, 25)), "winners": [True], "moved": True, "replaced": False}


def environment() -> dict[str, str]:
    """That of a process with a Spark of its own."""
    return {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
