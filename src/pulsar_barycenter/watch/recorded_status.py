"""The state of a watched cluster as `status` and `top` show it, from the same snapshot as the pages. Pure."""

from collections.abc import Sequence

import msgspec

from pulsar_barycenter.dashboard.overview import Shares, complaints_of
from pulsar_barycenter.status.board import Board, board_of
from pulsar_barycenter.status.cluster_status import BrokerStatus
from pulsar_barycenter.watch.watched_cluster import MINUTE_MS, WatchedCluster


class RecordedStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The status of a recorded cluster as of the last look at it (`at_ms`, epoch ms), read from `source`. `leader` is
    blank if it is not known. `complaints` are sentences that say what is wrong with the cluster, or which data could
    not be read.
    """

    at_ms: int
    source: str
    cluster: str
    leader: str
    strategy: str
    namespaces: int
    bundles: int
    brokers: tuple[BrokerStatus, ...]
    complaints: tuple[str, ...]

    @property
    def is_well(self) -> bool:
        """Whether the status has no complaints."""
        return not self.complaints


def recorded_board(cluster: WatchedCluster) -> Board:
    """Return the rows of the tables of brokers and bundles of a recorded cluster, as of the last look."""
    return board_of(cluster.document)


def recorded_status(cluster: WatchedCluster, source: str, problems: Sequence[str]) -> RecordedStatus:
    """Return the status of a recorded cluster. The age of a report is the time from the report to the last look.
    `source` is the name of the recording, `problems` are sentences about data that could not be read.
    """
    board, leader = recorded_board(cluster), cluster.beside.leader
    minutes = min(60.0, cluster.config.load_balancer_report_update_max_interval_minutes)
    shares = Shares().of(cluster.document, cluster.live)
    silent_ms = round((minutes + 1) * MINUTE_MS)
    return RecordedStatus(
        at_ms=cluster.at_ms,
        source=source,
        cluster=cluster.beside.cluster,
        leader=leader,
        strategy=cluster.strategy,
        namespaces=len(cluster.namespaces()),
        bundles=len(board.bundles),
        brokers=tuple(msgspec.structs.replace(row, leads=row.broker == leader) for row in board.brokers),
        complaints=(*complaints_of(shares, None, cluster.at_ms, silent_ms), *problems),
    )
