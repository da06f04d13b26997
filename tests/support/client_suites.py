"""A cluster set up as the test suites of Apache Pulsar's clients expect their broker, and how those suites ended.

The suites are not part of this project: they are fetched when they are to run, and run unchanged. Their addresses are
fixed (6650, 6651, 8080, 8443 of localhost), so that one suite runs on a machine at a time.
"""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen
from xml.etree import ElementTree

import jwt

from pulsar_barycenter.testing import Cluster
from support.go_programs import go
from support.maven import PeerUnavailableError

PYTHON_REPOSITORY: Final = "https://github.com/apache/pulsar-client-python"
PYTHON_CHECKOUT: Final = "BARYCENTER_PULSAR_CLIENT_PYTHON"
"""The environment variable that names a checkout of the client for Python, for machines that do not reach GitHub."""
GO_MODULE: Final = "github.com/apache/pulsar-client-go"

_PORTS: Final = (6650, 6651, 8080, 8443)
_AUTH: Final = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
_CLONE_TIMEOUT_S: Final = 120


@dataclass(frozen=True, slots=True)
class Outcome:
    """The names of the tests of a suite by how they ended, and what the failed ones said."""

    passed: frozenset[str]
    skipped: frozenset[str]
    failed: dict[str, str]


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a suite has of its own: certificates of one authority, a file of passwords, and the key that signs its
    tokens."""

    certificates: Path
    passwords: Path
    secret_key: Path

    def token(self, role: str) -> str:
        """Return a token of the role that never expires."""
        return jwt.encode({"sub": role}, self.secret_key.read_bytes(), "HS256")

    def configuration(self) -> dict[str, object]:
        """Return the keys of broker.conf for it: certificates, tokens and passwords are accepted, and who has none is
        `anonymous`."""
        return {
            "advertisedAddress": "localhost",
            "brokerServicePortTls": 6651,
            "webServicePortTls": 8443,
            "tlsCertificateFilePath": self.certificates / "broker-cert.pem",
            "tlsKeyFilePath": self.certificates / "broker-key.pem",
            "tlsTrustCertsFilePath": self.certificates / "cacert.pem",
            "authenticationEnabled": True,
            "authenticationProviders": ",".join(f"{_AUTH}{kind}" for kind in ("Tls", "Token", "Basic")),
            "basicAuthConf": f"file://{self.passwords}",
            "tokenSecretKey": f"file://{self.secret_key}",
            "anonymousUserRole": "anonymous",
            "authorizationEnabled": True,
            "superUserRoles": "localhost,superUser,admin",
            "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
            "brokerClientAuthenticationParameters": f"token:{self.token('superUser')}",
            "loadBalancerEnabled": False,
            "backlogQuotaCheckIntervalInSeconds": 5,
        }


@contextmanager
def cluster_for_suite(credentials: Credentials, data: Path, **configuration: object) -> Iterator[None]:
    """Run one broker at the addresses that the suites expect, with their tenants, namespaces and permissions.

    Raises:
        PeerUnavailableError: another program has one of the ports.
    """
    for port in _PORTS:
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError as error:
                raise PeerUnavailableError(f"port {port}, at which the suite expects a broker, is taken") from error
    config = {**credentials.configuration(), **configuration}
    with Cluster(broker_port=6650, web_port=8080, config=config, data=data) as cluster:
        _grant(cluster.admin_url, credentials.token("superUser"))
        yield


def _grant(admin_url: str, token: str) -> None:
    tenant: dict[str, Any] = {"allowedClusters": ["standalone"], "adminRoles": []}
    _sent(admin_url, token, "POST", "tenants/public", {**tenant, "adminRoles": ["anonymous"]})
    _sent(admin_url, token, "PUT", "tenants/private", tenant)
    both = ["produce", "consume"]
    for namespace, role in (("public/default-2", "anonymous"), ("private/auth", "token-principal")):
        policies = {"auth_policies": {"namespace_auth": {role: both}}, "replication_clusters": ["standalone"]}
        _sent(admin_url, token, "PUT", f"namespaces/{namespace}", policies)
    _sent(admin_url, token, "POST", "namespaces/public/default/permissions/anonymous", both)


def _sent(admin_url: str, token: str, method: str, path: str, body: Any) -> None:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = Request(f"{admin_url}/admin/v2/{path}", json.dumps(body).encode(), headers, method=method)
    with urlopen(request, timeout=30):
        pass


def python_suite(version: str, folder: Path) -> Path:
    """Return the tests of the client for Python of this version, copied or cloned into `folder`.

    Raises:
        PeerUnavailableError: no checkout is named, and GitHub is not reached.
    """
    named = os.environ.get(PYTHON_CHECKOUT)
    if named:
        return Path(shutil.copytree(Path(named) / "tests", folder / "tests"))
    command = ["git", "clone", "--quiet", "--depth", "1", "--branch", f"v{version}", PYTHON_REPOSITORY]
    try:
        subprocess.run([*command, str(folder / "cloned")], check=True, capture_output=True, timeout=_CLONE_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        text = f"{PYTHON_REPOSITORY} cannot be cloned here: name a checkout of its tag v{version} in {PYTHON_CHECKOUT}"
        raise PeerUnavailableError(text) from error
    return folder / "cloned" / "tests"


def go_suite(version: str, folder: Path) -> Path:
    """Return the client for Go of this version with its tests, copied from the module cache into `folder`.

    Raises:
        PeerUnavailableError: there is no Go, or the module cannot be had.
    """
    command = [go(), "mod", "download", "-json", f"{GO_MODULE}@{version}"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if said.returncode:
        raise PeerUnavailableError(f"the module {GO_MODULE} {version} cannot be had: {said.stdout}{said.stderr}")
    copied = Path(shutil.copytree(json.loads(said.stdout)["Dir"], folder / "client-go"))
    for path in (copied, *copied.rglob("*")):  # the module cache is read-only
        path.chmod(path.stat().st_mode | 0o200)
    return copied


def sum_of(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the outcomes of the parts of a suite as one."""
    parts = list(outcomes)
    return Outcome(
        frozenset().union(*(part.passed for part in parts)),
        frozenset().union(*(part.skipped for part in parts)),
        {name: said for part in parts for name, said in part.failed.items()},
    )


def outcome_of_pytest(report: Path) -> Outcome:
    """Read a report in the form of JUnit that pytest wrote; a test's name is CLASS.TEST."""
    passed, skipped, failed = set(), set(), {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
        wrong = [part for kind in ("failure", "error") for part in case.iter(kind)]
        if wrong:
            failed[name] = wrong[0].get("message", "")
        elif case.find("skipped") is not None:
            skipped.add(name)
        else:
            passed.add(name)
    return Outcome(frozenset(passed), frozenset(skipped), failed)


def outcome_of_go(lines: str) -> Outcome:
    """Read what `go test -json` printed. A test that was started and did not end, such as after a panic, has failed."""
    ended: dict[str, str] = {}
    said: dict[str, list[str]] = {}
    for line in lines.splitlines():
        event = json.loads(line)
        name = event.get("Test")
        if name is None:
            continue
        if event["Action"] == "output":
            said.setdefault(name, []).append(event["Output"])
        elif event["Action"] in ("run", "pass", "fail", "skip"):
            ended[name] = event["Action"]
    return Outcome(
        frozenset(name for name, action in ended.items() if action == "pass"),
        frozenset(name for name, action in ended.items() if action == "skip"),
        {name: "".join(said.get(name, [])) for name, action in ended.items() if action in ("run", "fail")},
    )
