"""Reads a cluster for the doctor: once, and a second time if findings may be an effect of a change in progress."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from pulsar_barycenter.admin.client import NewClient
from pulsar_barycenter.doctor.catalogue import Diagnosis, confirmed, diagnose, needs_second_look
from pulsar_barycenter.doctor.finding import Unseen
from pulsar_barycenter.doctor.picture import Picture
from pulsar_barycenter.doctor.reading.bookies import has_bookies, read_bookies
from pulsar_barycenter.doctor.reading.cluster import ClusterUnreadableError, read_cluster
from pulsar_barycenter.doctor.reading.file import read_file
from pulsar_barycenter.doctor.reading.ledgers import read_ledgers
from pulsar_barycenter.doctor.reading.store import StoreUnreadableError, read_store
from pulsar_barycenter.metadata.open import OF_ONE_MACHINE

_MAX_ANSWER_BYTES: Final = 64 << 20
_SECOND_LOOK_S: Final = 2.0
_NO_STORE: Final = Unseen(
    "locks, records and registrations in the metadata store",
    "give --store URL, the metadataStoreUrl of the brokers, if it can be reached from here",
    is_optional=True,
)
_NO_LEDGERS: Final = Unseen("the ledger folder", "give --ledgers DIR on a machine with a broker", is_optional=True)
_NO_FILE: Final = Unseen("broker.conf", "give --config FILE on a machine with a broker", is_optional=True)


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts of a cluster to examine; a part that is not given is not read. `urls` are the web addresses of brokers,
    `store` is the URL of the metadata store, `store_config` its `metadataStoreConfigPath`, `ledgers` the folder of the
    ledgers, `file` a broker.conf. `timeout_s` is the time limit for the answer of a broker.
    """

    urls: Sequence[str]
    store: str | None = None
    store_config: str = ""
    ledgers: str | None = None
    file: str | None = None
    timeout_s: float = 5.0


async def examine(new_client: NewClient, asked: Asked, names: Sequence[str] = ()) -> tuple[Picture, Diagnosis]:
    """Read a cluster, and return the picture (all that was read) and the findings of the checks in `names`, or of all
    checks.

    If a finding may be only the effect of a change in progress, the cluster is read a second time a little later; such
    a finding is returned only if the second reading confirms it.

    Raises:
        ClusterUnreadableError, StoreUnreadableError: none of the requested parts can be read.
    """
    picture = await _picture(new_client, asked)
    diagnosis = diagnose(picture, names)
    if asked.urls and needs_second_look(diagnosis):
        await asyncio.sleep(_SECOND_LOOK_S)
        with suppress(ClusterUnreadableError, StoreUnreadableError):  # then the findings of the first reading count
            diagnosis = confirmed(diagnosis, diagnose(await _picture(new_client, asked), names))
    return picture, diagnosis


async def _picture(new_client: NewClient, asked: Asked) -> Picture:
    """Read those parts of the cluster that `asked` names: the brokers, the store, the ledger folder and the file.
    Return all that was read as a picture.

    Raises:
        ClusterUnreadableError, StoreUnreadableError: none of the requested parts can be read.
    """
    picture = await _with_bookies(await _of_cluster(new_client, asked), asked)
    if asked.file is None:
        picture = replace(picture, unseen=(*picture.unseen, _NO_FILE))
    else:
        picture = replace(picture, file=await asyncio.to_thread(read_file, asked.file))
    if asked.ledgers is None:
        return replace(picture, unseen=(*picture.unseen, _NO_LEDGERS))
    urls = (broker.settings.get("metadataStoreUrl", "") for broker in picture.answering if broker.settings)
    url = asked.store or next(urls, "")
    several = bool(url) and not url.startswith(OF_ONE_MACHINE)
    return replace(picture, ledgers=await asyncio.to_thread(read_ledgers, asked.ledgers, several_machines=several))


async def _with_bookies(picture: Picture, asked: Asked) -> Picture:
    """Return `picture` (all that was read of the cluster) with what the store says about the bookies. If the store was
    not read, or has no bookies, return the picture unchanged.
    """
    if not asked.store or picture.store is None or not has_bookies(picture.store):
        return picture
    uris = (broker.settings.get("bookkeeperMetadataServiceUri", "") for broker in picture.answering if broker.settings)
    return replace(picture, bookies=await read_bookies(asked.store, asked.store_config, next(uris, "")))


async def _of_cluster(new_client: NewClient, asked: Asked) -> Picture:
    """Return the picture (all that was read) of the brokers and the metadata store. If one of the two cannot be read
    and the other can, the picture says that it was not checked.

    Raises:
        ClusterUnreadableError, StoreUnreadableError: none of the requested parts can be read.
    """
    picture = Picture(_now_ms(), unseen=() if asked.urls else (Unseen("the brokers", "give --url to query them"),))
    blind: ClusterUnreadableError | None = None
    if asked.urls:
        client = new_client(timeout_s=asked.timeout_s, most_bytes=_MAX_ANSWER_BYTES)
        try:
            picture = await read_cluster(asked.urls, client, now_ms=_now_ms)
        except ClusterUnreadableError as error:
            if not asked.store:
                raise
            blind = error
        finally:
            await client.close()
    if not asked.store:
        return replace(picture, unseen=(*picture.unseen, _NO_STORE))
    try:
        picture = replace(picture, store=await read_store(asked.store, asked.store_config))
    except StoreUnreadableError as error:
        if not asked.urls or blind is not None:
            raise
        picture = replace(picture, unseen=(*picture.unseen, Unseen("the metadata store", str(error))))
    if blind is not None:
        picture = replace(picture, unseen=(*picture.unseen, Unseen("the brokers", str(blind))))
    return picture


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
