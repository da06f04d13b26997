"""Reads the leader's snapshot and every broker's decisions from a running cluster."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pulsar_barycenter.admin.client import AdminClient, NewClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.cluster_logs.decision_log import KEPT, DecisionRecord
from pulsar_barycenter.cluster_logs.decision_pages import DecisionPage, DecisionQuestion
from pulsar_barycenter.cluster_logs.record_pages import cursor_of
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.observer.addresses import address_of
from pulsar_barycenter.observer.answers import without_report

_TIMEOUT_S: Final = 60.0
_NO_ROUTE: Final = 404
"""The status of Apache Pulsar's brokers, which do not have these routes."""
_RECORD_IT: Final = "record the cluster with `barycenter collect`, and give the folder"


class ClusterError(Exception):
    """The cluster did not answer, or its answer has an unexpected form; the text names the broker."""


async def snapshot_of(new_client: NewClient, url: str) -> SnapshotDocument:
    """Return the leader's snapshot; `url` is the web address of any broker.

    Raises:
        ClusterError: the snapshot cannot be read.
    """
    client = new_client(timeout_s=_TIMEOUT_S)
    try:
        answer = await client.call("GET", url, "/barycenter/v1/snapshot")
        return msgspec.convert(answer, SnapshotDocument, strict=False)
    except AdminRequestError as error:
        why = f"Apache Pulsar's brokers do not return the input of their decisions; {_RECORD_IT}"
        text = why if error.status == _NO_ROUTE else without_report(error)
        raise ClusterError(f"no snapshot from {url}: {text}") from error
    except msgspec.ValidationError as error:
        raise ClusterError(f"no snapshot from {url}: {error}") from error
    finally:
        await client.close()


async def decisions_of(
    new_client: NewClient, url: str, asked: Mapping[str, str]
) -> tuple[list[DecisionRecord], list[str]]:
    """Return the decisions of all brokers, oldest first, and the reason for each broker that could not be queried.

    Every broker that was once the leader has decisions, so all are queried. The decisions of a stopped broker are only
    in its decision log, which this function does not read. `asked` are query parameters of /barycenter/v1/decisions.

    Raises:
        ClusterError: the broker at `url` does not answer.
    """
    client = new_client(timeout_s=_TIMEOUT_S)
    try:
        brokers = await client.call("GET", url, "/admin/v2/brokers")
        found = await asyncio.gather(*(_decisions_at(client, broker, url, asked) for broker in brokers))
    except AdminRequestError as error:
        raise ClusterError(f"no answer from {url}: {error}") from error
    finally:
        await client.close()
    records = [record for records, _ in found for record in records]
    records.sort(key=lambda record: (record.at, record.by, record.number))
    return records, [trouble for _, trouble in found if trouble]


async def decision_page(new_client: NewClient, url: str, question: DecisionQuestion) -> DecisionPage:
    """Return the page of decisions that `question` selects, from the decision logs of all brokers; `url` is the web
    address of any broker.

    Raises:
        ClusterError: the page cannot be read.
    """
    asked = {name: getattr(question, name) for name in ("bundle", "namespace", "broker", "kind")}
    asked |= {"since": str(question.since_ms), "until": str(question.until_ms), "limit": str(question.limit)}
    if question.before is not None:
        asked["before"] = cursor_of(question.before)
    if question.covering is not None:
        asked["covering"] = question.covering.as_bundle()
    client = new_client(timeout_s=_TIMEOUT_S)
    params = {name: value for name, value in asked.items() if value}
    try:
        answer = await client.call("GET", url, "/barycenter/v1/decision-log", params=params)
        return msgspec.convert(answer, DecisionPage)
    except (AdminRequestError, msgspec.ValidationError) as error:
        raise ClusterError(f"no decisions from {url}: {error}") from error
    finally:
        await client.close()


async def _decisions_at(
    client: AdminClient, broker: str, told_by: str, asked: Mapping[str, str]
) -> tuple[list[DecisionRecord], str]:
    url = f"http://{broker}"
    try:
        url = await address_of(client, broker, told_by)
        answer: Any = await client.call("GET", url, "/barycenter/v1/decisions", params={"limit": str(KEPT), **asked})
        return msgspec.convert(answer, list[DecisionRecord]), ""
    except AdminRequestError as error:
        text = "Apache Pulsar's brokers do not return any" if error.status == _NO_ROUTE else without_report(error)
        return [], f"decisions of {url} are missing: {text}"
    except msgspec.ValidationError as error:
        return [], f"decisions of {url} are missing: {error}"
