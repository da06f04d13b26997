"""Clients of a cluster of Apache Pulsar: the stock client, holders of tokens, our own command."""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pulsar

from support.apache_pulsar import ApachePulsar
from support.stock_client import connect

_KEY = b"barycenter barycenter barycenter"
SECURED = {
    "authenticationEnabled": "true",
    "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    "tokenSecretKey": f"data:;base64,{base64.b64encode(_KEY).decode()}",
    "authorizationEnabled": "true",
    "superUserRoles": "operator",
    "anonymousUserRole": "operator",  # who sends no token may do all, so that only tests of tokens need one
}
"""Keys of brokers that ask for tokens."""


def token(role: str) -> str:
    """Return a token that brokers with the keys SECURED accept."""

    def text(part: bytes) -> str:
        return base64.urlsafe_b64encode(part).decode().rstrip("=")

    signed = f"{text(json.dumps({'alg': 'HS256'}).encode())}.{text(json.dumps({'sub': role}).encode())}"
    return f"{signed}.{text(hmac.new(_KEY, signed.encode(), hashlib.sha256).digest())}"


@contextmanager
def connected(cluster: ApachePulsar) -> Iterator[pulsar.Client]:
    """Yield the stock client."""
    client = connect(cluster.service_url)
    try:
        yield client
    finally:
        client.close()


def make_topic(cluster: ApachePulsar, name: str, *, partitions: int = 0, bundles: int = 4) -> str:
    """Create a namespace, and return a topic of this name in it."""
    cluster.expect(204, "PUT", f"/admin/v2/namespaces/public/{name}", json={"bundles": {"numBundles": bundles}})
    if partitions:
        cluster.expect(204, "PUT", f"/admin/v2/persistent/public/{name}/orders/partitions", json=partitions)
    return f"persistent://public/{name}/orders"


def barycenter(*arguments: str, status: int | None = 0, **environment: str) -> str:
    """Run the command and return its output, or its error output if it is expected to fail. With `status` None any
    exit code is accepted."""
    done = subprocess.run(
        [sys.executable, "-m", "pulsar_barycenter", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert status in (done.returncode, None), f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stderr if status else done.stdout
