"""Splits a bundle of a running cluster, records each step in a journal, and finds out whether a request was carried
out.

A bundle is split when it is not between the boundaries of its namespace any more. A request without an answer may have
been carried out, and so may a request that a killed process sent: the boundaries show it. The owner chooses the hash.
It may find none, as of a bundle with one topic by `topic_count_equally_divide`; then the bundle stays whole.

The parts stay with the owner. Moves of rounds take them away, within the limits of moves.

Source: Pulsar's `BundleSplitterTask`, `NamespacesBase.internalSplitNamespaceBundleAsync`.
"""

import asyncio
import enum
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Protocol, TypeAlias

import msgspec

from pulsar_barycenter.bounds.back_off import Doubling
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.operations.executor import NotNowError, RefusedError, when_told
from pulsar_barycenter.operations.journal_file import JournalFile

_LOOKS_AGAIN_S: Final = 0.05
_LOOKS_AT_MOST_S: Final = 2.0
_SEEN_WITHIN_S: Final = 5.0
"""How long a broker may still show the former boundaries after the owner has answered. A bundle that is whole after
this time counts as not split.
"""


class PlannedSplit(msgspec.Struct, frozen=True, kw_only=True):
    """A planned split: the bundle to split, and the broker that serves it. `sentence` is the reason."""

    bundle: Annotated[str, msgspec.Meta(max_length=4_096)]
    broker: Annotated[str, msgspec.Meta(min_length=1, max_length=2_048)]
    sentence: str = ""


class SplitState(enum.StrEnum):
    BEGUN = "begun"
    """The owner has received the request, or is about to."""
    SPLIT = "split"
    GONE = "gone"
    """Something else had split or deleted the bundle before the request was sent."""
    FAILED = "failed"
    """No split was seen: the request was not sent, was refused, or had no effect within the time limit. After a time
    limit, the owner may still split the bundle.
    """


class SplitEntry(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A line of the journal of splits: the state that a split reached. `at` is epoch ms, `by` is who requested the
    split, `why` the reason, `detail` says more about the state.
    """

    at: int
    by: str
    bundle: str
    broker: str
    state: SplitState
    detail: str = ""
    why: str = ""


def split_journal(file: Path) -> JournalFile[SplitEntry]:
    """Return the journal of splits in `file`, which is created at the first entry."""
    return JournalFile(file, SplitEntry)


def splits_under_way(entries: Iterable[SplitEntry]) -> tuple[PlannedSplit, ...]:
    """Return the splits that began and did not end, oldest first. There are such splits if the process that carried
    them out was killed.
    """
    last: dict[str, SplitEntry] = {}
    for entry in entries:
        last.pop(entry.bundle, None)
        last[entry.bundle] = entry
    return tuple(
        PlannedSplit(bundle=entry.bundle, broker=entry.broker, sentence=entry.why)
        for entry in last.values()
        if entry.state is SplitState.BEGUN
    )


class SplittableCluster(Protocol):
    """A cluster whose bundles can be split. Every method raises NotNowError or RefusedError."""

    async def bundles_of(self, namespace: str) -> frozenset[str]:
        """Return the bundles of a namespace."""
        ...

    async def split(self, bundle: str) -> None:
        """Ask the owner to split a bundle by the owner's own algorithm; the parts stay on the owner. If the owner finds
        no hash at which to split, the bundle is not split, and this method may return without an error.
        """
        ...


TellSplit: TypeAlias = Callable[[SplitState, str], None]
"""Receives each state of a split, with a detail."""


async def carry_out_split(
    bundle: str, cluster: SplittableCluster, *, max_bundles: int, timeout_s: float, tell: TellSplit
) -> SplitState:
    """Split a bundle; call `tell` with each state of the split, and return the last state.

    If the namespace has `max_bundles` bundles or more already, the bundle is not split, and the result is FAILED. If
    the split is not done after `timeout_s` seconds, the result is FAILED, too; the owner may still split the bundle
    later.
    """
    try:
        async with asyncio.timeout(timeout_s):
            state, detail = await _split(bundle, cluster, max_bundles, tell)
    except RefusedError as error:
        state, detail = SplitState.FAILED, str(error)
    except TimeoutError:
        state, detail = SplitState.FAILED, f"it is not split after {timeout_s:g} s"
    tell(state, detail)
    return state


async def _split(bundle: str, cluster: SplittableCluster, max_bundles: int, tell: TellSplit) -> tuple[SplitState, str]:
    namespace = bundle.rpartition("/")[0]

    async def look() -> frozenset[str]:
        return await when_told(partial(cluster.bundles_of, namespace))

    before = await look()
    if bundle not in before:
        return SplitState.GONE, "it is not a bundle of its namespace any more: it was split or deleted"
    if len(before) >= max_bundles:
        return SplitState.FAILED, (
            f"its namespace has {count_of(len(before), 'bundle')}, and loadBalancerNamespaceMaximumBundles is "
            f"{max_bundles:,}"
        )
    tell(SplitState.BEGUN, "")
    pauses = Doubling(_LOOKS_AGAIN_S, _LOOKS_AT_MOST_S)
    while True:
        refused = await _refusal(bundle, cluster)
        if bundle not in (after := await look()):
            return SplitState.SPLIT, _split_into(after)
        if refused is None:
            await asyncio.sleep(pauses.next_s())
            continue
        if refused:
            return SplitState.FAILED, refused
        return await _seen(bundle, look)


async def _refusal(bundle: str, cluster: SplittableCluster) -> str | None:
    """Send the request to split a bundle. Return "" if the request is accepted; the reason if it is refused; None if
    the cluster could not answer, so that the caller has to send it again.
    """
    try:
        await cluster.split(bundle)
    except NotNowError:
        return None
    except RefusedError as error:
        return str(error)
    return ""


async def _seen(bundle: str, look: Callable[[], Awaitable[frozenset[str]]]) -> tuple[SplitState, str]:
    """Wait until the bundle is split, and return the result of the split, and a text about it. `look` returns the
    present bundles of the namespace. The broker that answers `look` may show the split a little later than the owner;
    if the bundle is still there after _SEEN_WITHIN_S seconds, the result is FAILED.
    """
    pauses = Doubling(_LOOKS_AGAIN_S, _LOOKS_AT_MOST_S)
    until = asyncio.get_running_loop().time() + _SEEN_WITHIN_S
    while True:
        if bundle not in (after := await look()):
            return SplitState.SPLIT, _split_into(after)
        if asyncio.get_running_loop().time() >= until:
            return SplitState.FAILED, "the owner found no hash at which to split it"
        await asyncio.sleep(pauses.next_s())


def _split_into(after: frozenset[str]) -> str:
    return f"its namespace has {count_of(len(after), 'bundle')} now"
