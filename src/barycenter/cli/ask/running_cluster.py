"""What the commands ask a running cluster: the leader's snapshot, and every broker's decisions."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from barycenter.admin.client import AdminClient
from barycenter.admin.errors import AdminRequestError
from barycenter.load.snapshot.document import SnapshotDocument
from barycenter.logs.decision_log import KEPT, DecisionRecord

_TIMEOUT_S: Final = 60.0


URL_VARIABLE: Final = "BARYCENTER_URL"
_USUAL_URL: Final = "http://127.0.0.1:8080"


def asked_url(url: str | None) -> str:
    """Return the web address to ask: what was given, else what BARYCENTER_URL says, else that of this machine.

    One without a scheme is asked by HTTP.
    """
    found = url or os.environ.get(URL_VARIABLE) or _USUAL_URL
    return (found if "://" in found else f"http://{found}").rstrip("/")


class ClusterError(Exception):
    """The cluster did not answer, or not with what was asked for; the text says which broker."""


async def snapshot_of(url: str) -> SnapshotDocument:
    """Return what the leader decides upon; `url` is the web address of any broker.

    Raises:
        ClusterError: no snapshot can be had.
    """
    client = AdminClient(timeout_s=_TIMEOUT_S)
    try:
        answer = await client.call("GET", url, "/barycenter/v1/snapshot")
        return msgspec.convert(answer, SnapshotDocument, strict=False)
    except (AdminRequestError, msgspec.ValidationError) as error:
        raise ClusterError(f"no snapshot from {url}: {error}") from error
    finally:
        await client.close()


async def decisions_of(url: str, asked: Mapping[str, str]) -> tuple[list[DecisionRecord], list[str]]:
    """Return the decisions of all brokers, oldest first, and which brokers could not be asked, and why.

    A broker decides while it leads, so those of one that is gone are in its decision log only. `asked` are parameters
    of /barycenter/v1/decisions.

    Raises:
        ClusterError: the broker at `url` does not answer.
    """
    client = AdminClient(timeout_s=_TIMEOUT_S)
    try:
        brokers = await client.call("GET", url, "/admin/v2/brokers")
        found = await asyncio.gather(*(_decisions_at(client, f"http://{broker}", asked) for broker in brokers))
    except AdminRequestError as error:
        raise ClusterError(f"no answer from {url}: {error}") from error
    finally:
        await client.close()
    records = [record for records, _ in found for record in records]
    records.sort(key=lambda record: (record.at, record.by, record.number))
    return records, [trouble for _, trouble in found if trouble]


async def _decisions_at(client: AdminClient, url: str, asked: Mapping[str, str]) -> tuple[list[DecisionRecord], str]:
    try:
        answer: Any = await client.call("GET", url, "/barycenter/v1/decisions", params={"limit": str(KEPT), **asked})
        return msgspec.convert(answer, list[DecisionRecord]), ""
    except (AdminRequestError, msgspec.ValidationError) as error:
        return [], f"decisions of {url} are missing: {error}"
