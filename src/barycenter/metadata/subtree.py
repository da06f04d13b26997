"""Deleting a key with all that lies below it.

Source: Pulsar's `MetadataStore.deleteRecursive`.
"""

from contextlib import suppress

from barycenter.metadata.errors import NotFoundError
from barycenter.metadata.store import MetadataStore


async def delete_recursive(store: MetadataStore, path: str) -> None:
    """Delete what lies below `path`, deepest first, and then `path` itself if it is a key.

    Not atomic: a failure leaves a part, and calling again goes on. It is no error if nothing is there.

    Raises:
        HasChildrenError: somebody created a key below `path` meanwhile.
    """
    for name in await store.children(path):
        await delete_recursive(store, f"{path.rstrip('/')}/{name}")
    with suppress(NotFoundError):
        await store.delete(path)
