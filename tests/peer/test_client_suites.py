"""Apache Pulsar's own test suites of its clients for Python and Go, unchanged, against a broker of ours.

Each test of a suite passes, or is listed here with the reason.
"""

import os
import secrets
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from support.client_suites import (
    Credentials,
    Outcome,
    cluster_for_suite,
    go_suite,
    outcome_of_go,
    outcome_of_pytest,
    python_suite,
    sum_of,
)
from support.go_programs import go
from support.maven import PeerUnavailableError

pytestmark = [
    pytest.mark.peer,
    pytest.mark.integration,
    pytest.mark.full_form,
    pytest.mark.xdist_group("suites of clients"),
    pytest.mark.timeout(2_400),
]

PYTHON_FILES = (
    "custom_logger_test.py",
    "debug_logger_test.py",
    "pulsar_test.py",
    "schema_test.py",
    "table_view_test.py",
    "reader_test.py",
    "asyncio_test.py",
)
"""Those that need a broker and nothing else: the others need containers, an OpenID provider, or a terminal."""
FILE_TIMEOUT_S = 500
PYTHON_MAY_FAIL = {
    "PulsarTest.test_connect_timeout": "it connects to an address that drops packets, and no broker takes part",
    "AsyncioTest.test_create_producer_failure": "a client without rights is not told whether a tenant exists",
}
GO_VERSION = "v0.19.0"
GO_LEFT_OUT = {
    "Transaction|Txn": "transactions are not served",
    "ReconnectingAndThenCallClose|TimeoutWhileReconnecting": "it starts and stops a broker in a container",
    "TestReconnectConsumer|TestReconnectedBrokerSendPermits": "it starts and stops a broker in a container",
}


def assert_as_expected(outcome: Outcome, may_fail: dict[str, str], at_least: int) -> None:
    wrong = {name: said for name, said in outcome.failed.items() if name not in may_fail}
    assert not wrong, "\n".join(f"{name}: {said[-1_500:]}" for name, said in wrong.items())
    assert len(outcome.passed) >= at_least


def outcome_of_file(tests: Path, file: str, report: Path) -> Outcome:
    """Run one file of the suite in a process of its own; once more if it hangs.

    Now and then the client is closed while it holds Python's lock, and waits for a thread that waits for that lock.
    """
    options = ("-q", "-c", os.devnull, "--rootdir", ".", "-p", "no:randomly", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *options, "--timeout", "120", f"--junitxml={report}", file]
    for _ in range(2):
        try:
            subprocess.run(command, cwd=tests, capture_output=True, timeout=FILE_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            continue
        return outcome_of_pytest(report)
    return Outcome(frozenset(), frozenset(), {file: f"it did not end within {FILE_TIMEOUT_S} s, two times"})


def test_the_suite_of_the_client_for_python(tmp_path: Path) -> None:
    try:
        tests = python_suite(version("pulsar-client"), tmp_path)
        key = tmp_path / "secret.key"
        key.write_bytes(secrets.token_bytes(32))
        credentials = Credentials(tests / "test-conf", tests / "test-conf" / ".htpasswd", key)
        (tests / ".test-token.txt").write_text(credentials.token("token-principal"))
        with cluster_for_suite(credentials, tmp_path / "data", maxMessageSize=1_024_000):
            outcomes = [outcome_of_file(tests, file, tmp_path / f"{file}.xml") for file in PYTHON_FILES]
    except PeerUnavailableError as error:
        pytest.skip(str(error))
    assert_as_expected(sum_of(outcomes), PYTHON_MAY_FAIL, 165)


@pytest.mark.parametrize(("package", "at_least"), [("./pulsar", 360)])
def test_the_suite_of_the_client_for_go(package: str, at_least: int, tmp_path: Path) -> None:
    try:
        client = go_suite(GO_VERSION, tmp_path)
        printed = tmp_path / "printed.json"
        given = client / "integration-tests"
        credentials = Credentials(given / "certs", given / "conf" / ".htpasswd", given / "tokens" / "secret.key")
        command = [go(), "test", "-json", "-p", "1", "-timeout", "30m", "-skip", "|".join(GO_LEFT_OUT), package]
        of_the_suite = {"maxMessageSize": 1_048_576, "subscriptionKeySharedUseConsistentHashing": False}
        with cluster_for_suite(credentials, tmp_path / "data", **of_the_suite), printed.open("w") as stream:
            subprocess.run(command, cwd=client, stdout=stream, timeout=2_300, check=False)
    except PeerUnavailableError as error:
        pytest.skip(str(error))
    assert_as_expected(outcome_of_go(printed.read_text()), {}, at_least)
