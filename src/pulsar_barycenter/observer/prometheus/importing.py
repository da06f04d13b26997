"""Imports metrics window by window into a folder of load reports."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.cluster_logs.data_folder import check_no_history
from pulsar_barycenter.cluster_logs.load_report_log import write_report
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.errors import InvalidBundlesError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.observer.answers import without_report
from pulsar_barycenter.observer.prometheus.placing import BundlePlacing, Placing, TopicPlacing, namespaces_of
from pulsar_barycenter.observer.prometheus.progress import FILE, Progress, Wanted, read_progress, write_progress
from pulsar_barycenter.observer.prometheus.reports import Followed, Hardware, Naming, load_reports
from pulsar_barycenter.observer.prometheus.series import (
    BROKER_SERIES,
    BUNDLE_SERIES,
    CPU,
    OF_BARYCENTER,
    RATE_IN,
    TOPIC_SERIES,
    AnswerTooLargeError,
    Extent,
    ImportRefusedError,
    MetricsSource,
    Series,
    Window,
)
from pulsar_barycenter.observer.prometheus.window import WindowSums
from pulsar_barycenter.whole_files.appearing import make_folder
from pulsar_barycenter.whole_files.locked_folder import FolderInUseError, locked_folder

MAX_STEPS: Final = 200_000
"""The maximum number of steps of an import: 138 days in steps of a minute."""
MOST_STEPS: Final = 2_000
"""The maximum number of steps of a window; Prometheus answers at most 11,000."""
_FIRST_STEPS: Final = 30
_POINTS: Final = 400_000
"""The number of points (about 20 MB) that an answer is to have at most; the number of steps of a window follows from
it.
"""
_GROWTH: Final = 4
MAX_NAMESPACES: Final = 10_000
"""The maximum number of namespaces whose boundaries are asked for."""
_NOT_THERE: Final = 404


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an import. It reads the metrics from `since_ms` to `until_ms` (epoch ms, both inclusive), at
    intervals of `step_ms`. `cluster` is "" if the operator chose none.
    """

    source: str
    out: Path
    since_ms: int
    until_ms: int
    step_ms: int
    cluster: str = ""
    labels: Sequence[tuple[str, str]] = ()
    hardware: Hardware = field(default_factory=Hardware)


class Outcome(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The result of an import. `since` (inclusive) and `until` (exclusive) are the period of all that the folder has,
    also from earlier runs of this import; times are epoch ms. The counts are those of this run.
    """

    cluster: str
    since: int
    until: int
    step_ms: int
    reports: int
    brokers: int
    bundles: int
    missing: list[str]
    warnings: list[str]


class Boundaries:
    """The bundles of namespaces, from a file or from the admin REST API of the cluster."""

    def __init__(self, known: dict[str, NamespaceBundles], *, client: AdminClient | None = None, url: str = "") -> None:
        """Start with the bundles of the namespaces in `known`. If `client` is given, `learn` reads the bundles of other
        namespaces from the broker at `url`.
        """
        self.bundles = known
        self.gone: list[str] = []
        """The requested namespaces that no longer exist in the cluster; each counts as one bundle."""
        self._client = client
        self._url = url

    async def learn(self, names: Sequence[str]) -> None:
        """Find the namespaces of the topics `names` whose bundles are not known yet, and read their boundaries from the
        broker.

        Raises:
            ImportRefusedError: the broker does not answer, or boundaries are missing and there is no broker from which
                to read them.
        """
        unknown = sorted(namespaces_of(names) - self.bundles.keys())
        if unknown and self._client is None:
            shown = ", ".join(unknown[:3])
            raise ImportRefusedError(
                f"the boundaries of {count_of(len(unknown), 'namespace')} are not known: {shown}; add these"
                " boundaries to the file of --bundles, or give the address of a broker that returns them:"
                " --admin-url"
            )
        if len(self.bundles) + len(unknown) > MAX_NAMESPACES:
            raise ImportRefusedError(f"there are more than {MAX_NAMESPACES:,} namespaces; give a file with --bundles")
        for namespace in unknown:
            self.bundles[namespace] = await self._asked(namespace)

    async def _asked(self, name: str) -> NamespaceBundles:
        assert self._client is not None
        namespace = NamespaceName.parse(name)
        try:
            answer: Any = await self._client.call("GET", self._url, f"/admin/v2/namespaces/{name}/bundles")
            return NamespaceBundles.from_boundaries(namespace, msgspec.convert(answer["boundaries"], list[str]))
        except AdminRequestError as error:
            if error.status != _NOT_THERE:
                raise ImportRefusedError(f"the boundaries of {name} are not known: {without_report(error)}") from error
            self.gone.append(name)
            return NamespaceBundles.full(namespace)
        except (msgspec.ValidationError, InvalidBundlesError, KeyError, TypeError) as error:
            raise ImportRefusedError(f"{self._url} did not return the boundaries of {name}: {error}") from error


async def import_metrics(
    source: MetricsSource, boundaries: Boundaries | None, wanted: Options, tell: Callable[[int, int], None]
) -> Outcome:
    """Import the metrics of a source into a folder, or continue an earlier import into it. `wanted` has the options.
    `tell` receives the number of steps that are done and the number of all steps. With `boundaries` the metrics of
    topics are read, and assigned to the bundles of the topics; None: the metrics of bundles are read.

    Raises:
        ImportRefusedError: the metrics or the folder cannot be used.
        WrongFolderError: the folder has another history.
        OSError: the folder cannot be read or written.
    """
    with _held(wanted.out):
        importing = await _opened(source, boundaries, wanted)
        await importing.run(tell)
        return importing.outcome()


@contextmanager
def _held(out: Path) -> Iterator[None]:
    """Lock the folder `out` while the block runs, since two imports would give different reports the same numbers.
    Create the folder if it does not exist; at the end, remove it again if it is still empty.

    Raises:
        ImportRefusedError: another process imports into the folder.
        OSError: the folder cannot be created or opened.
    """
    is_new = not out.exists()
    make_folder(out)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_folder(out))
        except FolderInUseError:
            raise ImportRefusedError(
                f"another process imports into {out}; wait until it has ended, or give another folder"
            ) from None
        try:
            yield
        finally:
            if is_new:
                with suppress(OSError):  # it is not empty
                    out.rmdir()


async def _opened(source: MetricsSource, boundaries: Boundaries | None, wanted: Options) -> "_Import":
    before = read_progress(wanted.out)
    if before is None:
        check_no_history(wanted.out)
    elif wanted.since_ms < before.since_ms - wanted.step_ms:
        raise ImportRefusedError(
            f"the import in {wanted.out / FILE} begins at {before.since_ms} (epoch ms), but the given --since is"
            f" earlier, {wanted.since_ms}; reports can be added only after the present ones: give a later --since, or"
            " another folder"
        )
    since_ms = before.next_ms if before is not None else wanted.since_ms
    extent = chosen(await source.extents(since_ms, wanted.until_ms), wanted)
    if before is not None:
        _check_same(before, wanted, is_by_topic=boundaries is not None)
        return _Import(source, boundaries, wanted, before, before.next_ms if extent is None else extent.last_ms + 1)
    if extent is None:
        raise ImportRefusedError(
            f"{wanted.source} has no metrics of Pulsar's brokers in that period ({BROKER_SERIES['alive']},"
            f" {BROKER_SERIES[CPU]}); check the period, the labels of --match, and that brokers are scraped"
        )
    progress = await _begun(source, wanted, extent, is_by_topic=boundaries is not None)
    return _Import(source, boundaries, wanted, progress, extent.last_ms + 1)


def _check_same(before: Progress, wanted: Options, *, is_by_topic: bool) -> None:
    known = before.wanted
    now = {
        "--cluster": (wanted.cluster or known.cluster, known.cluster),
        "--match": (sorted(wanted.labels), sorted(known.labels)),
        "--step": (wanted.step_ms, known.step_ms),
        "--cores, --network-gbits": (wanted.hardware, known.hardware),
        "--admin-url or --bundles": (is_by_topic, known.is_by_topic),
    }
    changed = [name for name, (mine, theirs) in now.items() if mine != theirs]
    if changed:
        raise ImportRefusedError(
            f"{wanted.out / FILE} was made with another {'; '.join(changed)}; give the same options, or another folder"
        )


async def _begun(source: MetricsSource, wanted: Options, extent: Extent, *, is_by_topic: bool) -> Progress:
    step_ms = wanted.step_ms
    begin_ms = -(-extent.first_ms // step_ms) * step_ms
    last = Window(max(begin_ms, extent.last_ms // step_ms * step_ms), step_ms, 1)
    is_own = bool(await source.series(OF_BARYCENTER, extent.cluster, last))
    if not is_by_topic and not await source.series(BUNDLE_SERIES[RATE_IN], extent.cluster, last):
        raise ImportRefusedError(
            f"{wanted.source} has no metrics of bundles ({BUNDLE_SERIES[RATE_IN]}); to find the bundles of topics, give"
            " --admin-url or --bundles"
        )
    kept = Wanted(
        source=wanted.source,
        cluster=extent.cluster,
        labels=list(wanted.labels),
        step_ms=step_ms,
        hardware=wanted.hardware,
        is_by_topic=is_by_topic,
    )
    return Progress(
        wanted=kept,
        since_ms=wanted.since_ms,
        begin_ms=begin_ms,
        next_ms=begin_ms,
        is_apache_pulsar=not is_own,
        followed=Followed(),
    )


def chosen(extents: Sequence[Extent], wanted: Options) -> Extent | None:
    """Return the `Extent` (the time range of the metrics) of the cluster that `wanted` names; if it names none, that of
    the only cluster. None: there are no metrics.

    Raises:
        ImportRefusedError: there are several clusters and `wanted` names none, or it names a cluster that has no
            metrics.
    """
    names = [extent.cluster for extent in extents]
    if wanted.cluster:
        found = [extent for extent in extents if extent.cluster == wanted.cluster]
        if not found and names:
            raise ImportRefusedError(
                f"{wanted.source} has no metrics of cluster {wanted.cluster} in that period; choose one of its"
                f" clusters with --cluster: {', '.join(names)}"
            )
        return found[0] if found else None
    if len(names) > 1:
        raise ImportRefusedError(
            f"{wanted.source} has {count_of(len(names), 'cluster')}: {', '.join(map(repr, names))}; choose one with"
            f" --cluster {names[0] or names[1]}"
        )
    return extents[0] if extents else None


class _Import:
    def __init__(
        self,
        source: MetricsSource,
        boundaries: Boundaries | None,
        wanted: Options,
        progress: Progress,
        end_ms: int,
    ) -> None:
        """Prepare an import from `source` of the steps before `end_ms` (epoch ms). `progress` says where it continues;
        without `boundaries` the metrics of bundles are read.
        """
        self._source = source
        self._boundaries = boundaries
        self._wanted = wanted
        self._progress = progress
        self._end_ms = end_ms
        self._steps = _FIRST_STEPS
        self._placing: Placing = TopicPlacing(boundaries.bundles) if boundaries is not None else BundlePlacing()
        self._naming = Naming(f"{progress.begin_ms:x}", progress.is_apache_pulsar)
        self._brokers: set[str] = set()
        self._bundles: set[str] = set()
        self._reports = 0

    async def run(self, tell: Callable[[int, int], None]) -> None:
        step_ms = self._wanted.step_ms
        whole = max(0, -(-(self._end_ms - self._progress.next_ms) // step_ms))
        if whole > MAX_STEPS:
            raise ImportRefusedError(
                f"the period has {count_of(whole, 'step')}, more than the maximum of {MAX_STEPS:,}; give a later"
                " --since, or a greater --step"
            )
        left = whole
        while left > 0:
            steps = min(self._steps, left)
            sums = await self._read(Window(self._progress.next_ms, step_ms, steps))
            self._keep(sums)
            left -= sums.window.steps
            self._steps = next_steps(sums.window.steps, sums.points // max(1, len(self._placing.metrics)))
            tell(whole - left, whole)
        if whole and not self._reports and not self._progress.reports:
            raise ImportRefusedError(
                f"no step of the period contains a value of a broker from {self._wanted.source}; try a greater --step"
            )

    async def _read(self, window: Window) -> WindowSums:
        """Return the sums of the metrics over a window of steps; if the answers for the window are too large, the sums
        over a shorter window with the same begin. `WindowSums.window` says which window was read.
        """
        while True:
            try:
                return await self._sums(window)
            except AnswerTooLargeError as error:
                if window.steps == 1:
                    raise ImportRefusedError(
                        f"{error}; a request for one step cannot be divided further:"
                        " choose a part of the brokers with --match"
                    ) from error
                window = Window(window.first_ms, window.step_ms, max(1, window.steps // 4))

    async def _sums(self, window: Window) -> WindowSums:
        cluster = self._progress.wanted.cluster
        sums = WindowSums(window, self._placing)
        for figure, name in BROKER_SERIES.items():
            sums.add_of_brokers(figure, await self._source.series(name, cluster, window))
        for figure, name in self._placing.metrics.items():
            every = await self._source.series(name, cluster, window)
            if figure == RATE_IN:
                await self._learn(every)
            sums.add(figure, every)
        self._check_placed(sums)
        return sums

    async def _learn(self, every: Sequence[Series]) -> None:
        if self._boundaries is not None:
            await self._boundaries.learn([self._placing.name_of(series.metric) for series in every])

    def _check_placed(self, sums: WindowSums) -> None:
        """Raise ImportRefusedError if there are metrics of brokers, but no series can be assigned to a bundle. Nothing
        has been written to the folder then.
        """
        if sums.bundles or self._progress.reports or not self._placing.left_out:
            return
        reasons = "; ".join(f"{count:,} {why}" for why, count in self._placing.left_out.most_common(3))
        if "label topic" in reasons:
            raise ImportRefusedError(
                f"no series can be assigned to a bundle: {reasons}. Without the label topic, the series are sums of"
                f" whole namespaces; if the metrics include {BUNDLE_SERIES[RATE_IN]}, leave out --admin-url and"
                " --bundles"
            )

    def _keep(self, sums: WindowSums) -> None:
        reports, followed = load_reports(sums, self._progress.followed, self._wanted.hardware, self._naming)
        for report in reports:
            write_report(self._wanted.out / "load-reports", report)
            self._brokers.add(str(report.broker_id))
            self._bundles.update(report.last_stats)
        self._reports += len(reports)
        progress = self._progress
        progress.followed = followed
        progress.reports += len(reports)
        progress.figures = sorted({*progress.figures, *sums.seen})
        progress.next_ms = sums.window.last_ms + sums.window.step_ms
        write_progress(self._wanted.out, progress)

    def outcome(self) -> Outcome:
        progress = self._progress
        return Outcome(
            cluster=progress.wanted.cluster,
            since=progress.begin_ms,
            until=progress.next_ms,
            step_ms=progress.wanted.step_ms,
            reports=self._reports,
            brokers=len(self._brokers),
            bundles=len(self._bundles),
            missing=progress.missing(),
            warnings=[*self._of_boundaries(), *_of_time(progress.followed)],
        )

    def _of_boundaries(self) -> list[str]:
        found = []
        if self._boundaries is not None and self._boundaries.gone:
            gone = self._boundaries.gone
            found.append(
                f"{count_of(len(gone), 'namespace')} no longer exist, such as {gone[0]}; each counts as one bundle"
            )
        found += [f"{count:,} names {why}: left out" for why, count in sorted(self._placing.left_out.items())]
        if not self._bundles and self._reports:
            metric = TOPIC_SERIES[RATE_IN] if self._boundaries is not None else BUNDLE_SERIES[RATE_IN]
            found.append(f"no bundle has load: there is no {metric}, or no topic was loaded")
        followed = self._progress.followed
        if followed.overlaps > 0.02 * followed.placed:
            found.append(
                f"in {followed.overlaps / followed.placed:.0%} of all pairs of bundle and step, two brokers had"
                " metrics of the bundle: the boundaries are not those of that time, or a step is shorter than the"
                " interval of scrapes"
            )
        return found


def next_steps(steps: int, points: int) -> int:
    """Return the number of steps of the next window, so that its answers are neither small nor too large. `points` is
    the number of values that the answers for the last window, of `steps` steps, had together.
    """
    wanted = steps * _GROWTH if points <= 0 else steps * _POINTS // points
    return max(1, min(MOST_STEPS, steps * _GROWTH, wanted))


def _of_time(followed: Followed) -> list[str]:
    if not followed.gaps:
        return []
    longest = max(followed.gaps, key=lambda gap: gap[1] - gap[0])
    minutes = (longest[1] - longest[0]) / 60_000
    return [
        f"{count_of(len(followed.gaps), 'gap')} without any metric; the longest is {minutes:,.0f}"
        f" min, from {longest[0]} to {longest[1]} (epoch ms). Replays need a period without a gap: --since, --until"
    ]
