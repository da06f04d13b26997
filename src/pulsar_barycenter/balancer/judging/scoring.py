"""The score: how evenly the brokers were used, and at which price, as the cluster did it and as this program would."""

import msgspec

from pulsar_barycenter.load.rounds.balance import Balance


class Side(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What is counted for one of the two sides that are compared: the cluster with its own moves, or with the
    balancer's. The measure is the usage of the fullest broker above the mean of all brokers, a fraction of a broker.

    `rounds` counts the rounds in which it was known, `above_mean_sum` is its sum over these rounds, and `worst` its
    greatest value. `moves` is the number of moves. `throughput` (bytes/s) and `sessions` (number of clients) are sums
    over the bundles that moved, each as it was when it moved.
    """

    rounds: int = 0
    above_mean_sum: float = 0.0
    worst: float = 0.0
    moves: int = 0
    throughput: float = 0.0
    sessions: int = 0

    @property
    def mean(self) -> float:
        """The measure's mean over the rounds: by how much the fullest broker's usage exceeded the mean of all brokers,
        a fraction of a broker; 0 before the first round.
        """
        return self.above_mean_sum / self.rounds if self.rounds else 0.0

    def with_balance(self, balance: Balance) -> "Side":
        """Return the score after one more round; the same score if the balance is of fewer than two brokers."""
        if balance.brokers < 2:
            return self
        return msgspec.structs.replace(
            self,
            rounds=self.rounds + 1,
            above_mean_sum=self.above_mean_sum + balance.above_mean,
            worst=max(self.worst, balance.above_mean),
        )

    def with_move(self, throughput: float, sessions: int) -> "Side":
        """Return the score after a move of a bundle with this throughput (bytes/s) and this number of clients."""
        return msgspec.structs.replace(
            self, moves=self.moves + 1, throughput=self.throughput + throughput, sessions=self.sessions + sessions
        )


class Score(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The scores that are compared: `cluster` is of what happened, `ours` of what would have happened with the moves of
    this program alone.

    In a mode that moves bundles, the moves of this program happen: then the balances are the same, and `cluster` counts
    foreign moves, too.
    """

    cluster: Side = Side()
    ours: Side = Side()
