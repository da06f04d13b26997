"""`barycenter doctor` on Apache Pulsar itself: nothing in a healthy cluster is an error, and made faults are found,

while its brokers run, and in the store alone when they were killed.
"""

import asyncio
import subprocess
import sys
from collections import Counter
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.metadata.open import open_store
from support.apache_pulsar import ApachePulsar, soon

pytestmark = [
    pytest.mark.full_form,
    pytest.mark.peer,
    pytest.mark.integration,
    pytest.mark.xdist_group("spark"),  # none here, but in the other files that share these clusters
]

TOPICS = tuple(f"non-persistent://public/looked-at/orders-{number}" for number in range(6))


def look(cluster: ApachePulsar, *words: str) -> dict[str, dict[str, str]]:
    """Return of each check the subjects that it found, with their severities; by the store alone without `words`."""
    command = [sys.executable, "-m", "pulsar_barycenter", "doctor", "--json", "--store", cluster.metadata_url, *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode in (0, 1), ran.stderr
    found: dict[str, dict[str, str]] = {}
    for line in ran.stdout.splitlines():
        told = msgspec.json.decode(line)
        if told["kind"] == "finding":
            found.setdefault(told["check"], {})[told["subject"]] = told["severity"]
    return found


def bad(found: dict[str, dict[str, str]]) -> dict[str, list[str]]:
    """Return the subjects of what is an error or worse, by check."""
    worst = {"error", "critical"}
    return {
        check: sorted(subject for subject, severity in subjects.items() if severity in worst)
        for check, subjects in found.items()
        if worst & set(subjects.values())
    }


def put(cluster: ApachePulsar, values: dict[str, Any]) -> None:
    async def put() -> None:
        store = await open_store(cluster.metadata_url)
        for path, value in values.items():
            await store.put(path, msgspec.json.encode(value))
        await store.close()

    asyncio.run(put())


def test_made_faults_are_found_and_nothing_bad_before(last_of_modular: ApachePulsar) -> None:
    """With all that the other tests of this folder left in the cluster, too."""
    cluster = last_of_modular
    cluster.expect(204, "PUT", "/admin/v2/namespaces/public/looked-at", json={"bundles": {"numBundles": 4}})
    # who owns most topics has two bundles or more; only one comes back, when a reader of policies looks its topic up
    gone = Counter(cluster.owner(topic) for topic in TOPICS).most_common(1)[0][0]
    left = next(broker for broker in cluster.brokers if broker is not gone)
    url = ("--url", left.web_url)
    healthy = look(cluster, *url)
    assert bad(healthy) == {}, healthy
    healthy = look(cluster)
    assert bad(healthy) == {}, healthy

    lock = {"httpUrl": "http://gone:8080", "nativeUrl": "pulsar://gone:6650", "disabled": False}
    torn = {"bundles": {"boundaries": ["0x00000000", "0x40000000", "0xc0000000"], "numBundles": 2}}
    put(
        cluster,
        {
            "/namespace/public/torn/0x00000000_0x40000000": lock,
            "/admin/policies/public/torn": torn,
            "/admin/local-policies/public/torn": torn,
        },
    )
    found = look(cluster, *url)
    assert "public/torn/0x00000000_0x40000000" in found["owner-gone"]
    assert "public/torn" in found["tiling"]
    assert "public/looked-at" not in found.get("unowned", {})

    gone.kill()

    def is_out() -> bool:
        found = look(cluster, *url)
        return gone.broker_id in found.get("silent-broker", {}) or "public/looked-at" in found.get("unowned", {})

    soon(is_out, within_s=120, what="the doctor tells of a broker that was killed")

    left.kill()
    made = {"owner-gone": ["public/torn/0x00000000_0x40000000"], "tiling": ["public/torn"]}

    def is_stopped() -> bool:
        """What the brokers held ended with their sessions; what was made is all that is bad."""
        return bad(look(cluster)) == made

    soon(
        is_stopped, within_s=60, what="the doctor finds in the store of a stopped cluster what was made there, no more"
    )
