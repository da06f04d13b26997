"""The run of a demo: start one broker, add the others, balance, kill the busiest one, continue, and sum up."""

import asyncio
import shlex
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.demo.contenders import OURS, Contender
from pulsar_barycenter.demo.live_view import LiveView, latest_samples
from pulsar_barycenter.demo.log_readers import DecisionReader, PipelineBatches, pipeline_batches
from pulsar_barycenter.demo.observer import ClusterObserver
from pulsar_barycenter.demo.plan import ClientLine, ClientPlan, ClientResult, Mark, Progress, TopicPlan
from pulsar_barycenter.demo.record import Event, Record
from pulsar_barycenter.demo.report.comparison import SeenRun
from pulsar_barycenter.demo.report.page import Origin, render_report
from pulsar_barycenter.demo.summary import summarise
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.traces import Trace
from pulsar_barycenter.standalone.cluster import BrokerProcess, ClusterSettings, StandaloneCluster
from pulsar_barycenter.standalone.data_directory import DataDirectory, DataDirectoryLock
from pulsar_barycenter.standalone.errors import ProcessFailedError
from pulsar_barycenter.standalone.interruptible import unless

NAMESPACE = "public/demo"
BUNDLES = 4
_JOIN_AT = 0.1
_KILL_AT = 0.5
_OBSERVE_EVERY_S = 1.0
_MESSAGES_IN_AND_OUT = 2
_ONE_BROKER_BUSY = 0.8
_HOT_BUNDLE_SHARE = 0.4
_EXISTS = 409


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The settings of a demo.

    `load` is a text for the report that names the source of the rates. `balancing` selects the strategies.
    `trace_paths` are the files and folders of the traces; empty for synthetic load, which is generated from `seed`.
    `changes` maps keys of broker.conf to values, as texts, which replace the demo's own values. `is_compared`: the run
    is one of several, and has a folder of its own below `out`.
    """

    out: Path
    traces: Sequence[Trace]
    load: str
    balancing: Contender = OURS
    brokers: int = 3
    duration_s: float = 120.0
    speedup: float = 1440.0
    chaos: bool = True
    payload_bytes: int = 1024
    web_port: int = 18080
    broker_port: int = 16650
    trace_paths: Sequence[Path] = ()
    seed: int | None = None
    changes: Mapping[str, str] = field(default_factory=dict)
    is_compared: bool = False

    def beside(self, other: Contender) -> "DemoSettings":
        """Return the settings of a second run of the demo with the same load, another strategy, and a folder of its
        own.
        """
        return replace(self, out=self.out / other.name, balancing=other, is_compared=True)

    def client_plan(self, service_url: str) -> ClientPlan:
        return ClientPlan(
            service_url=service_url,
            topics=[
                TopicPlan(f"persistent://{NAMESPACE}/{trace.name}", trace.step_ms, list(trace.values))
                for trace in self.traces
            ],
            duration_s=self.duration_s,
            speedup=self.speedup,
            payload_bytes=self.payload_bytes,
        )

    def command(self) -> str:
        """Return the command that starts the same demo again."""
        words = ["barycenter", "demo", "--brokers", str(self.brokers), "--duration", f"{self.duration_s:.15g}"]
        words += [word for path in self.trace_paths for word in ("--trace", str(path))]
        words += [] if self.seed is None else ["--seed", str(self.seed)]
        words += [word for key, text in self.changes.items() for word in ("--set", f"{key}={text}")]
        words += ["--speedup", f"{self.speedup:.15g}", "--chaos" if self.chaos else "--no-chaos"]
        words += ["--compare"] if self.is_compared else []
        words += ["--web-port", str(self.web_port), "--broker-port", str(self.broker_port)]
        words += ["--out", str(self.out.parent if self.is_compared else self.out)]
        return shlex.join(words)

    def mean_rate(self) -> float:
        """Return the mean over the run of the sum of all topics' rates, in messages per second."""
        steps = range(int(self.duration_s))
        total = sum(trace.rate_at(at_s * self.speedup) for trace in self.traces for at_s in steps)
        return total * self.speedup / max(1, len(steps))


def demo_configuration(settings: DemoSettings) -> dict[str, str]:
    """Return the keys of broker.conf with which a cluster balances within seconds instead of minutes.

    The network limit is set so that one broker with the whole load would use 80 % of it: brokers on one machine share
    the processor, so only a separate limit shows each broker's share of the load. CPU usage does not count, because
    all brokers of a machine report the same value. A bundle that was moved is not moved again for seven rounds
    (thirty by Pulsar's defaults): with a shorter time, the few bundles of bursty load moved back and forth.
    """
    rate = max(settings.mean_rate(), 1.0)
    bits_per_s = rate * settings.payload_bytes * 8
    return {
        "statsUpdateFrequencyInSecs": "1",
        "loadBalancerReportUpdateMinIntervalMillis": "1000",
        "loadBalancerReportUpdateMaxIntervalMinutes": "0.05",
        "loadBalancerHostUsageCheckIntervalMinutes": "0.0166",
        "loadBalancerSheddingIntervalMinutes": "0.07",
        "loadBalancerSheddingGracePeriodMinutes": "0.5",
        "loadBalancerResourceQuotaUpdateIntervalMinutes": "0.1",
        "loadBalancerHistoryResourcePercentage": "0.5",
        "loadBalancerBundleUnloadMinThroughputThreshold": "0",
        "loadBalancerDistributeBundlesEvenlyEnabled": "false",
        "loadBalancerCPUResourceWeight": "0",
        "loadBalancerOverrideBrokerNicSpeedGbps": f"{bits_per_s / _ONE_BROKER_BUSY / 1e9:.6f}",
        "loadBalancerNamespaceBundleMaxMsgRate": str(int(rate * _MESSAGES_IN_AND_OUT * _HOT_BUNDLE_SHARE) + 1),
        "metadataStoreSessionTimeoutMillis": "4000",
        **settings.balancing.keys,
        **settings.changes,
    }


class Demo:
    """One run of the demo. `run` returns its result; the report and the summary are in `settings.out` afterwards."""

    def __init__(self, settings: DemoSettings) -> None:
        self.settings = settings
        self.record = Record(started_at_s=time.time())
        title = f"Barycenter demo · balanced by {settings.balancing.title}"
        self._view = LiveView(self.record, settings.duration_s, title=title)
        self._at_once = asyncio.Event()
        self._progress: Progress | None = None
        self._result: ClientResult | None = None
        self._affected: list[str] = []
        self._directory = DataDirectory((settings.out / "data").absolute())
        self._decisions = DecisionReader(self._directory.decisions)
        self._decisions.new_events()  # those of an earlier run on the same folder

    async def run(self) -> SeenRun:
        directory = self._directory
        with DataDirectoryLock(directory), self._view:
            cluster = StandaloneCluster(
                ClusterSettings(
                    directory,
                    brokers=self.settings.brokers,
                    web_port=self.settings.web_port,
                    broker_port=self.settings.broker_port,
                    configuration=demo_configuration(self.settings),
                    pipeline_trigger_s=1.0,
                    restart=False,
                ),
                progress=self._view.starts,
            )
            cluster.check_ports()
            async with self._running(cluster):
                await self._drive(cluster)
            batches = pipeline_batches(directory.logs / "pipeline.log")
        return self._write(batches)

    def write_so_far(self) -> SeenRun | None:
        """Write the report of a cancelled run, and return its result; None if no load was recorded yet.

        Lost messages and the gaps of topics are missing, because clients report them at the end.
        """
        if self._progress is None or not self.record.samples:
            return None
        seen = self._progress
        self.ended_at_s = seen.at
        self._result = self._result or ClientResult([], seen.recovered)
        batches = pipeline_batches(self._directory.logs / "pipeline.log")
        counted = {"messages_produced": seen.produced, "messages_consumed": seen.consumed}
        return self._write(batches, {"interrupted": True} if self._result.topics else {"interrupted": True, **counted})

    @asynccontextmanager
    async def _running(self, cluster: StandaloneCluster) -> AsyncIterator[None]:
        try:
            self._view.phase("starting the pipeline; the brokers follow, so that no report waits for it")
            await cluster.start_pipeline()
            await cluster.start_brokers(cluster.brokers[:1])
            self._view.dashboards([broker.web_url for broker in cluster.brokers])
            yield
        finally:
            if not await unless(self._at_once, cluster.stop()):
                await cluster.kill()

    def end_at_once(self) -> None:
        """Kill the processes of a run that is ending, so that it does not wait for their orderly end."""
        self._at_once.set()

    async def _drive(self, cluster: StandaloneCluster) -> None:
        async with ClusterObserver([broker.web_url for broker in cluster.brokers]) as observer:
            await create_namespace(cluster.brokers[0].web_url)
            clients = await self._start_clients(cluster.service_url)
            self.record.started_at_s = time.time()
            self._joined(cluster.brokers[0])
            listening = asyncio.create_task(self._listen(clients), name="client progress")
            watching = asyncio.create_task(self._watch(observer), name="observe brokers")
            try:
                self._view.phase("one broker carries everything")
                await self._until(_JOIN_AT)
                await self._grow(cluster)
                await self._until(_KILL_AT)
                if self.settings.chaos and len(cluster.brokers) > 1:
                    await self._kill_busiest(cluster, observer, clients)
                await self._until(1.0)
                self.ended_at_s = time.time()
                self._view.phase("waiting for the last messages")
                await listening
                await self._observe(observer)
                self._view.update(self._progress)
            finally:
                for task in (listening, watching):
                    task.cancel()
                if clients.returncode is None:
                    clients.kill()
                await clients.wait()

    async def _grow(self, cluster: StandaloneCluster) -> None:
        self._view.phase("more brokers join")
        await cluster.start_brokers(cluster.brokers[1:])
        for broker in cluster.brokers[1:]:
            self._joined(broker)
        self._view.phase("the load spreads")

    def _joined(self, broker: BrokerProcess) -> None:
        self.record.events.append(Event(time.time(), "broker joined", "", None, broker.broker_id, ""))

    async def _kill_busiest(
        self, cluster: StandaloneCluster, observer: ClusterObserver, clients: asyncio.subprocess.Process
    ) -> None:
        rates = {sample.broker: sample.msg_rate for sample in latest_samples(self.record)}
        topics = [f"persistent://{NAMESPACE}/{trace.name}" for trace in self.settings.traces]
        owners = await asyncio.gather(*(observer.owner(topic) for topic in topics))
        # the busiest by its last report may have given all away since
        victim = max(cluster.brokers, key=lambda broker: (broker.web_url in owners, rates.get(broker.broker_id, 0.0)))
        self._affected = [topic for topic, owner in zip(topics, owners, strict=True) if owner == victim.web_url]
        self.record.killed_bundles = await observer.bundles_of(victim.web_url, NAMESPACE)
        await cluster.kill_broker(victim)
        assert clients.stdin is not None
        clients.stdin.write(msgspec.json.encode(Mark(self._affected)) + b"\n")
        self.record.killed_at_s = time.time()
        self.record.killed_broker = victim.broker_id
        reason = f"SIGKILL to the busiest broker; {count_of(len(self._affected), 'topic')} must find a new one"
        self.record.events.append(Event(self.record.killed_at_s, "broker killed", "", victim.broker_id, None, reason))
        self._view.phase("the busiest broker was killed; its bundles fail over")

    async def _start_clients(self, service_url: str) -> asyncio.subprocess.Process:
        log = (self.settings.out / "clients.log").open("ab")
        with log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "pulsar_barycenter.demo.clients"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=64 * 1024 * 1024,
                start_new_session=True,  # a terminal's Ctrl-C is for this process to answer
            )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(self.settings.client_plan(service_url)) + b"\n")
        if not await process.stdout.readline():
            code = await process.wait()
            raise ProcessFailedError("the client process", code, self.settings.out / "clients.log", "")
        return process

    async def _listen(self, clients: asyncio.subprocess.Process) -> None:
        """Receive progress from the process of the clients until it sends its result.

        Raises:
            ProcessFailedError: the clients ended without a result.
        """
        assert clients.stdout is not None
        decoder = msgspec.json.Decoder(ClientLine)
        while line := await clients.stdout.readline():
            said = decoder.decode(line)
            if isinstance(said, ClientResult):
                self._result = said
                return
            self._progress = said
        raise ProcessFailedError("the client process", await clients.wait(), self.settings.out / "clients.log", "")

    async def _watch(self, observer: ClusterObserver) -> None:
        while True:
            await self._observe(observer)
            self._view.update(self._progress)
            await asyncio.sleep(_OBSERVE_EVERY_S)

    async def _observe(self, observer: ClusterObserver) -> None:
        self.record.samples += await observer.load_samples(time.time())
        self.record.events += self._decisions.new_events()
        self.record.events.sort(key=lambda event: event.at_s)

    async def _until(self, part: float) -> None:
        wait_s = self.record.started_at_s + part * self.settings.duration_s - time.time()
        await asyncio.sleep(max(0.0, wait_s))

    def _write(self, batches: PipelineBatches, more: Mapping[str, Any] | None = None) -> SeenRun:
        assert self._result is not None
        summary = summarise(
            self.record,
            self._result,
            affected_topics=self._affected,
            pipeline=batches,
            ended_at_s=self.ended_at_s,
        )
        summary |= {
            "strategy": self.settings.balancing.title,
            "brokers": self.settings.brokers,
            "load": self.settings.load,
            "speedup": self.settings.speedup,
        }
        summary |= more or {}
        out = self.settings.out
        (out / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
        report = render_report(self.record, self._result.topics, summary, self._origin())
        (out / "report.html").write_text(report, encoding="utf-8")
        return SeenRun(self.settings.balancing, self.record, self._result.topics, summary, out / "report.html")

    def _origin(self) -> Origin:
        settings = self.settings
        began = datetime.fromtimestamp(self.record.started_at_s, UTC)
        told = {
            "load began": f"{began:%Y-%m-%d %H:%M:%S} UTC",
            "brokers": str(settings.brokers),
            "duration": f"{settings.duration_s:g} s",
            "balanced by": settings.balancing.title,
            "load": settings.load,
            "seed": "none: the load is of traces" if settings.seed is None else str(settings.seed),
            "speed-up": f"{settings.speedup:g} s of trace time a second",
            "busiest broker killed": "half-way" if settings.chaos else "no",
            "size of a message": f"{settings.payload_bytes:,} bytes",
        }
        return Origin(settings.command(), told, demo_configuration(settings))


async def create_namespace(web_url: str) -> None:
    """Create the demo's namespace, unless an earlier run with the same folder created it."""
    client = AdminClient()
    try:
        await client.call(
            "PUT", web_url, f"/admin/v2/namespaces/{NAMESPACE}", body={"bundles": {"numBundles": BUNDLES}}
        )
    except AdminRequestError as error:
        if error.status != _EXISTS:
            raise
    finally:
        await client.close()
