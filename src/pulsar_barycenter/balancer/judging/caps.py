"""How many of a round's moves may be carried out now: a pure count of what was moved, against the caps."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.balancer.options import HOUR_MS, MINUTE_MS, Caps
from pulsar_barycenter.naming.counted import count_of

_MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class PastMove:
    """A move that began `at_ms` (epoch ms), of a bundle with this throughput (bytes/s, in + out)."""

    at_ms: int
    bundle: str
    throughput: float = 0.0


class Room:
    """Counts the moves that may still be made in one round, which begins at `now_ms`.

    The moves in `past` count for the caps per hour. In addition, a round gets at most the number of moves that the cap
    per minute allows until the next round, `round_ms` later, but at least one. A bundle whose throughput alone exceeds
    `throughput_per_hour` may move only if no other move began within the last hour; without this exception it could
    never move.
    """

    def __init__(
        self,
        caps: Caps,
        past: Iterable[PastMove],
        *,
        now_ms: int,
        round_ms: int,
        staying: Mapping[str, str] | None = None,
    ) -> None:
        """Compute from `caps` and `past` how many moves, and how much throughput, are still allowed. `staying` maps
        each bundle that must not move to the reason.
        """
        lately = [move for move in past if now_ms - move.at_ms < HOUR_MS]
        self._caps = caps
        self._staying = staying or {}
        self._moves = len(lately)
        self._throughput = sum(move.throughput for move in lately)
        self._left_of_round = max(1, int(caps.per_minute * round_ms / MINUTE_MS))
        self.refused: dict[str, str] = {}
        """The bundles for which `take` returned False, each with the reason, such as the cap that has no room."""

    def take(self, bundle: str, throughput: float) -> bool:
        """Return whether this bundle, with this throughput in bytes/s, may move. True: its move is counted as made.
        False: the bundle and the reason are added to `refused`.
        """
        why = self._staying.get(bundle) or self._full(throughput)
        if why:
            self.refused[bundle] = why
            return False
        self._moves += 1
        self._left_of_round -= 1
        self._throughput += throughput
        return True

    def _full(self, throughput: float) -> str:
        caps = self._caps
        if self._moves >= caps.per_hour:
            return f"{count_of(self._moves, 'move')} began within the hour, and --per-hour is {caps.per_hour:,}"
        if self._left_of_round <= 0:
            return f"the round has as many moves as --per-minute {caps.per_minute:g} allows until the next one"
        most = caps.throughput_per_hour
        if most and self._moves and self._throughput + throughput > most:
            return (
                f"with it {(self._throughput + throughput) / _MIB:,.1f} MiB/s would have moved within the hour, and "
                f"--throughput-per-hour is {most / _MIB:,.1f} MiB/s"
            )
        return ""


def too_few(current: Sequence[str], caps: Caps) -> str:
    """Return why nothing may move: too few brokers (`current`) have current reports; blank if moves may begin."""
    if len(current) >= caps.min_brokers:
        return ""
    return (
        f"{count_of(len(current), 'broker')} with a current report, and --min-brokers is {caps.min_brokers}: nothing "
        "moves until more brokers answer"
    )
