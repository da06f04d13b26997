"""The custom metadata by which tools recognise what a ledger of BookKeeper belongs to.

Source: Pulsar's `LedgerMetadataUtils`.
"""

from typing import Final

_APPLICATION: Final = "application"
_COMPONENT: Final = "component"


def of_topic(name: str) -> dict[str, bytes]:
    """Return the custom metadata of a BookKeeper ledger with a topic's messages. `name` is
    `<tenant>/<namespace>/persistent/<local name>`, with the local name encoded.
    """
    return {_APPLICATION: b"pulsar", _COMPONENT: b"managed-ledger", "pulsar/managed-ledger": name.encode()}


def of_cursor(name: str, cursor: str) -> dict[str, bytes]:
    """Return the custom metadata of a BookKeeper ledger that stores a cursor. `name` names the topic as in `of_topic`,
    `cursor` is the name of the cursor, not encoded.
    """
    return {**of_topic(name), "pulsar/cursor": cursor.encode()}


def of_compacted(topic: str, compacted_to: bytes) -> dict[str, bytes]:
    """Return the custom metadata of a compacted ledger. `topic` is the full name of the topic. `compacted_to` is the
    serialized id of the last message that was compacted.
    """
    return {
        _APPLICATION: b"pulsar",
        _COMPONENT: b"compacted-ledger",
        "pulsar/compactedTopic": topic.encode(),
        "pulsar/compactedTo": compacted_to,
    }
