"""Follows the owners of bundles, which it reads from the brokers."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.cluster_days.systems import System

_LOOK_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Look:
    """Who had each bundle at a time (seconds since 1970)."""

    at_s: float
    owners: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Move:
    at_s: float
    bundle: str
    source: str
    destination: str


class Watch:
    """Reads at short intervals which broker owns each bundle. The load of a bundle without an owner counts for its last
    owner: the messages of its topics wait until a broker owns it again.
    """

    def __init__(self, system: System, owners: Mapping[str, str]) -> None:
        self.looks = [Look(time.time(), dict(owners))]
        self.moves: list[Move] = []
        self._system = system

    async def run(self) -> None:
        while True:
            self._add(time.time(), await self._system.owned())
            await asyncio.sleep(_LOOK_S)

    def count_from(self, start_s: float) -> None:
        """Change the times of what was seen to seconds from `start_s`, which is in seconds since 1970."""
        self.looks = [replace(look, at_s=look.at_s - start_s) for look in self.looks]
        self.moves = [replace(move, at_s=move.at_s - start_s) for move in self.moves]

    def _add(self, at_s: float, owned: Mapping[str, set[str]]) -> None:
        owners = dict(self.looks[-1].owners)
        for bundle, owner in self.looks[-1].owners.items():
            others = [broker for broker, bundles in owned.items() if bundle in bundles]
            if others and owner not in others:
                owners[bundle] = others[0]
                self.moves.append(Move(at_s, bundle, owner, others[0]))
        self.looks.append(Look(at_s, owners))
