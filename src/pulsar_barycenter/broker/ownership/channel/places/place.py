"""The key that names the place of the ownership records, and the keys of its readers.

| key | value | written by |
|---|---|---|
| `/loadbalance/extension/records` | a `Place` as JSON, at most 1 KiB | the leader; the first broker creates it |
| `/loadbalance/extension/records-readers/<incarnation>` | the generation at which it last stopped | the reader |

The store deletes a reader's key with its session. While `isMoving`, no broker writes records; a reader that has stopped
publishes this. Each change of the key increments the generation.
"""

from typing import Final, NamedTuple

import msgspec

from pulsar_barycenter.load.service_units.service_unit_state import StorageType
from pulsar_barycenter.metadata.errors import BadVersionError, MetadataError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore

PLACE_PATH: Final = "/loadbalance/extension/records"
READERS_ROOT: Final = "/loadbalance/extension/records-readers"
_MAX_BYTES: Final = 1024
_FIRST_GENERATION: Final = 1

SOURCES: Final = {
    "SystemTopicToMetadataStoreSyncer": StorageType.SYSTEM_TOPIC,
    "MetadataStoreToSystemTopicSyncer": StorageType.METADATA_STORE,
}
"""For each value of `loadBalancerServiceUnitTableViewSyncer`: the place from which the records are copied."""


def other_place(place: StorageType) -> StorageType:
    """Return the other one of the two places of ownership records, METADATA_STORE and SYSTEM_TOPIC."""
    in_topic = place is StorageType.SYSTEM_TOPIC
    return StorageType.METADATA_STORE if in_topic else StorageType.SYSTEM_TOPIC


class PlaceUnreadableError(MetadataError):
    """The key that names the place of the ownership records (topic or metadata store) cannot be decoded. Until it is
    corrected, no record is known.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(PLACE_PATH, f"the key does not name the place of the ownership records; correct it: {reason}")


class Place(msgspec.Struct, frozen=True, rename="camel"):
    """The place of the ownership records (topic or metadata store), and whether they are being moved to the other
    place. `generation` is a number that grows with each change of this key.
    """

    place: StorageType
    generation: int
    is_moving: bool = False

    def next(self, place: StorageType, *, is_moving: bool) -> "Place":
        return Place(place, self.generation + 1, is_moving)


class StoredPlace(NamedTuple):
    place: Place
    version: int


async def read_place(store: MetadataStore) -> StoredPlace | None:
    """Read the key that names the place of the ownership records, and return its value and version; None if there is no
    key yet.

    Raises:
        PlaceUnreadableError: the value has more than 1 KiB, or is not a `Place`.
        MetadataError: the store did not answer.
    """
    stored = await store.get(PLACE_PATH)
    if stored is None:
        return None
    if len(stored.value) > _MAX_BYTES:
        raise PlaceUnreadableError(
            f"the value of this key has {len(stored.value)} bytes; at most {_MAX_BYTES} are allowed"
        )
    try:
        return StoredPlace(msgspec.json.decode(stored.value, type=Place), stored.stat.version)
    except msgspec.DecodeError as error:
        raise PlaceUnreadableError(str(error)) from error


async def read_or_make_place(store: MetadataStore, first: StorageType) -> StoredPlace:
    """Read the key that names the place of the ownership records, and return its value and version. If it does not
    exist, create it first, with the place `first`.

    If several brokers do this at the same time, all get the value of the first write.
    """
    while (found := await read_place(store)) is None:
        try:
            return await write_place(store, Place(first, _FIRST_GENERATION), MUST_NOT_EXIST)
        except BadVersionError:
            continue
    return found


async def write_place(store: MetadataStore, place: Place, version: int) -> StoredPlace:
    """Replace the value of the key that names the place of the ownership records, if the key has the version `version`;
    return the new value and version.

    Raises:
        BadVersionError: another broker replaced the value.
        MetadataError: the store did not answer.
    """
    stat = await store.put(PLACE_PATH, msgspec.json.encode(place), expected_version=version)
    return StoredPlace(place, stat.version)


async def readers_not_stopped(store: MetadataStore, generation: int) -> list[str]:
    """Return the incarnations of the brokers (one for each run of a process) that have not confirmed that they stopped
    writing ownership records. `generation` identifies the move for which they have to stop.
    """
    found = []
    for reader in await store.children(READERS_ROOT):
        stored = await store.get(f"{READERS_ROOT}/{reader}")
        if stored is not None and stored.value != str(generation).encode():
            found.append(reader)
    return found
