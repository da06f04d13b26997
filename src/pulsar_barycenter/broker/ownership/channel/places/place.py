"""The key that says where the ownership records are, and the keys of those who follow it.

| key | value | kept by |
|---|---|---|
| `/loadbalance/extension/records` | a `Place` as JSON, at most 1 KiB | the leader; the first broker makes it |
| `/loadbalance/extension/records-readers/<incarnation>` | at which generation it stood still last | its session |

While `isMoving`, nobody writes records; whoever stands still says so. A generation is one more with each change.
"""

from typing import Final, NamedTuple

import msgspec

from pulsar_barycenter.load.service_units.service_unit_state import StorageType
from pulsar_barycenter.metadata.errors import BadVersionError, MetadataError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore

PLACE_PATH: Final = "/loadbalance/extension/records"
READERS_ROOT: Final = "/loadbalance/extension/records-readers"
_LONGEST: Final = 1024
_FIRST_GENERATION: Final = 1

SOURCES: Final = {
    "SystemTopicToMetadataStoreSyncer": StorageType.SYSTEM_TOPIC,
    "MetadataStoreToSystemTopicSyncer": StorageType.METADATA_STORE,
}
"""Values of `loadBalancerServiceUnitTableViewSyncer`, and from where each takes the records."""


def other_place(place: StorageType) -> StorageType:
    """Return the one of the two places that `place` is not."""
    in_topic = place is StorageType.SYSTEM_TOPIC
    return StorageType.METADATA_STORE if in_topic else StorageType.SYSTEM_TOPIC


class PlaceUnreadableError(MetadataError):
    """The key that says where the records are cannot be read; nothing is known of any record before it can."""

    def __init__(self, reason: str) -> None:
        super().__init__(PLACE_PATH, f"it does not say where the ownership records are: {reason}")


class Place(msgspec.Struct, frozen=True, rename="camel"):
    """Where the records are, as of a generation, and whether they are on their way to the other place."""

    place: StorageType
    generation: int
    is_moving: bool = False

    def next(self, place: StorageType, *, is_moving: bool) -> "Place":
        return Place(place, self.generation + 1, is_moving)


class StoredPlace(NamedTuple):
    place: Place
    version: int


async def read_place(store: MetadataStore) -> StoredPlace | None:
    """Return what the key says; None if there is none yet.

    Raises:
        PlaceUnreadableError: it has more than 1 KiB, or is not what is written there.
        MetadataError: the store did not answer.
    """
    stored = await store.get(PLACE_PATH)
    if stored is None:
        return None
    if len(stored.value) > _LONGEST:
        raise PlaceUnreadableError(f"it has {len(stored.value)} bytes")
    try:
        return StoredPlace(msgspec.json.decode(stored.value, type=Place), stored.stat.version)
    except msgspec.DecodeError as error:
        raise PlaceUnreadableError(str(error)) from error


async def read_or_make_place(store: MetadataStore, first: StorageType) -> StoredPlace:
    """Return what the key says; if there is none, `first` is written there, and of several brokers' one."""
    while (found := await read_place(store)) is None:
        try:
            return await write_place(store, Place(first, _FIRST_GENERATION), MUST_NOT_EXIST)
        except BadVersionError:
            continue
    return found


async def write_place(store: MetadataStore, place: Place, version: int) -> StoredPlace:
    """Replace what the key of `version` says.

    Raises:
        BadVersionError: somebody else did.
        MetadataError: the store did not answer.
    """
    stat = await store.put(PLACE_PATH, msgspec.json.encode(place), expected_version=version)
    return StoredPlace(place, stat.version)


async def who_goes_on(store: MetadataStore, generation: int) -> list[str]:
    """Return the readers that do not stand still at `generation` (yet), by their incarnations."""
    going_on = []
    for reader in await store.children(READERS_ROOT):
        stored = await store.get(f"{READERS_ROOT}/{reader}")
        if stored is not None and stored.value != str(generation).encode():
            going_on.append(reader)
    return going_on
