"""`barycenter standalone`: runs a cluster on this machine until Ctrl-C."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import click
import msgspec

from pulsar_barycenter import DISTRIBUTION
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError
from pulsar_barycenter.config.broker_conf import ConfigError, load_broker_conf
from pulsar_barycenter.load.advice.configuration_advice import advice, key_advice
from pulsar_barycenter.load.installed import BALANCE_INSTALL, can_balance
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.open import UnknownStoreError, check_url, open_store
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.run.broker_folders import check_metadata
from pulsar_barycenter.standalone.cluster import OWN_KEYS, ClusterSettings, StandaloneCluster, read_configuration
from pulsar_barycenter.standalone.data_directory import DataDirectory, DataDirectoryLock
from pulsar_barycenter.standalone.ephemeral import ephemeral_folder
from pulsar_barycenter.standalone.errors import StandaloneError
from pulsar_barycenter.standalone.interruptible import unless
from pulsar_barycenter.standalone.progress import StartProgress
from pulsar_barycenter.standalone.ready import ClusterReady
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.progress import StartLines


@click.command(name="standalone")
@click.option("--brokers", default=1, show_default=True, type=click.IntRange(1, 64), help="Number of broker processes.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for all data of the cluster.  [default: as with --ephemeral]",
)
@click.option("--ephemeral", is_flag=True, help="Instead of --data: use a temporary folder, and delete it at the end.")
@click.option(
    "--web-port",
    default=8080,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="HTTP port of broker 0; 0: free ports.",
)
@click.option(
    "--broker-port",
    default=6650,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Binary port of broker 0; 0: free ports.",
)
@click.option(
    "--config",
    "conf",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A broker.conf for all brokers.",
)
@click.option(
    "--metadata-store",
    "metadata_store_url",
    default="",
    metavar="URL",
    help="A metadataStoreUrl, such as zk:HOST:PORT.  [default: a SQLite file in the data folder]",
)
@click.option(
    "--pipeline/--no-pipeline", default=None, help="Run the Spark pipeline.  [default: if PySpark is installed]"
)
@with_format(
    "text", "json", json="one object when all brokers serve: URLs, also those with TLS, data folder, process id"
)
def command(
    brokers: int,
    data: Path | None,
    ephemeral: bool,
    web_port: int,
    broker_port: int,
    conf: Path | None,
    metadata_store_url: str,
    pipeline: bool | None,
    form: str,
) -> None:
    """Run a cluster on this machine.

    Broker i listens on the given ports plus i. The --data folder has all data; with --metadata-store, all but the
    metadata. The same command on the same folder continues with this data. Without --data all data is in a temporary
    folder, which is deleted at the end. Ctrl-C ends the cluster in order, a second Ctrl-C at once.

    The command prints one line, or with --json one object, when all brokers serve clients. Standard error shows the
    steps of the start and later events. The pipeline starts after the brokers; they serve clients without it.

    A broker that fails is restarted. A broker that was asked to stop (POST /admin/v2/brokers/shutdown, or SIGTERM)
    stays stopped until this process gets SIGUSR1.
    """
    if metadata_store_url.startswith("memory:"):
        raise click.UsageError(
            "--metadata-store memory: works within one process only, and each broker is its own process; leave out this"
            " option"
        )
    _check_folder_options(data, metadata_store_url, ephemeral=ephemeral)
    try:
        if metadata_store_url:
            check_url(metadata_store_url)
        configuration = checked_configuration(conf) if conf else {}
        keep_private()
        has_pipeline = _has_pipeline(pipeline)
        remarks = [*_remarks(brokers, pipeline_wanted=pipeline is not False, has_pipeline=has_pipeline)]
        if data is None and not ephemeral:
            remarks.append("all data is deleted at the end; to keep it, give --data DIR")
        with ExitStack() as held:
            root = data.absolute() if data is not None else held.enter_context(ephemeral_folder())
            directory = DataDirectory(root)
            held.enter_context(DataDirectoryLock(directory))
            settings = ClusterSettings(
                directory,
                brokers=brokers,
                web_port=web_port,
                broker_port=broker_port,
                configuration=configuration,
                pipeline=has_pipeline,
                metadata_store_url=metadata_store_url,
                ephemeral=data is None,
            )
            asyncio.run(_run(settings, partial(_say_ready, form), remarks))
    except (StandaloneError, ConfigError, MetadataError, UnknownStoreError, WrongFolderError, OSError) as error:
        fail(in_words(error))


def _check_folder_options(data: Path | None, metadata_store_url: str, *, ephemeral: bool) -> None:
    """Check that the options about folders do not contradict each other.

    Raises:
        click.UsageError: two options contradict each other; the text names them, and what to give instead.
    """
    if ephemeral and data is not None:
        raise click.UsageError(
            f"--ephemeral deletes its folder at the end, and --data {data} names a folder to keep: leave out one of the"
            " two"
        )
    if data is None and metadata_store_url:
        raise click.UsageError(
            "without --data all messages are deleted at the end, but the metadata in --metadata-store "
            f"{metadata_store_url} would stay and name topics without messages: give --data DIR"
        )


def _has_pipeline(wanted: bool | None) -> bool:
    """Return whether the pipeline is to run: as requested, else whether PySpark is installed.

    Raises:
        ModuleNotFoundError: it is requested, and PySpark is not installed.
    """
    if wanted is False or find_spec("pyspark") is not None:
        return wanted is not False
    if wanted:
        raise ModuleNotFoundError(name="pyspark")
    return False


def _remarks(brokers: int, *, pipeline_wanted: bool, has_pipeline: bool) -> Iterator[str]:
    """Yield a sentence for each part of the cluster that cannot run because a library is missing: what does not work,
    and how to install the library.
    """
    if not can_balance():
        alone = "a broker alone has nothing to balance" if brokers == 1 else "bundles are spread by their number only"
        yield f"no balancing, because numpy is not installed: {alone}; to install it: {BALANCE_INSTALL}"
    if pipeline_wanted and not has_pipeline:
        yield f"no pipeline, because PySpark is not installed; to install it: pip install '{DISTRIBUTION}[pipeline]'"


def checked_configuration(conf: Path) -> dict[str, str]:
    """Return the keys and values of the file `conf`; print warnings about keys without effect and about problematic
    values.

    Raises:
        ConfigError: a value is not allowed for its key.
    """
    result = load_broker_conf(conf)
    for unknown in key_advice(result.unknown_keys):
        click.echo(f"barycenter: {conf}: unknown key {unknown.key} is ignored; {unknown.mend}", err=True)
    for hint in advice(result.config):
        click.echo(f"barycenter: {conf}: {hint.severity}: {hint}", err=True)
    configuration = read_configuration(conf)
    for key in OWN_KEYS:
        if configuration.get(key):
            click.echo(
                f"barycenter: {conf}: {key} is ignored, because an option of `standalone` sets this key", err=True
            )
    return configuration


def _say_ready(form: str, ready: ClusterReady) -> None:
    click.echo(msgspec.json.encode(ready) if form == "json" else ready.line())


async def _run(
    settings: ClusterSettings, say_ready: Callable[[ClusterReady], None], remarks: Sequence[str] = ()
) -> None:
    lines = StartLines()
    cluster = StandaloneCluster(settings, progress=lines)
    stop, stop_now = asyncio.Event(), asyncio.Event()

    def interrupted() -> None:
        (stop_now if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # sent when the terminal closes; nohup ignores it
        loop.add_signal_handler(signal.SIGHUP, interrupted)
    loop.add_signal_handler(signal.SIGUSR1, cluster.start_again)

    async def start() -> None:
        cluster.check_ports()
        for text in (first_line(settings), *remarks):
            lines.event(text)
        await _open_metadata(settings, lines)
        await cluster.serve()

    try:
        if await unless(stop, start()):
            ready = cluster.ready()
            say_ready(ready)
            lines.event(_next_step(ready))
            cluster.bring_up_pipeline()
        await stop.wait()
        lines.close()
        await end(cluster, stop_now, lines)
    finally:
        lines.close()


def first_line(settings: ClusterSettings) -> str:
    """Return the first line of output: what is started, and what the user does next."""
    brokers = "a broker" if settings.brokers == 1 else count_of(settings.brokers, "broker")
    after = ", then the pipeline" if settings.pipeline else ""
    return f"starting {brokers}{after}: when `ready` is printed, {_what_to_do(settings)}; Ctrl-C ends the cluster"


def _what_to_do(settings: ClusterSettings) -> str:
    if not settings.broker_port or not settings.web_port:
        return "connect clients to the address in that line"
    return (
        f"connect clients to pulsar://127.0.0.1:{settings.broker_port}, or open http://127.0.0.1:{settings.web_port}/"
    )


class Running(Protocol):
    """A running cluster, as far as the function `end` uses it (implemented by `StandaloneCluster`)."""

    async def stop(self) -> None:
        """Stop all brokers in order, and wait until they have ended."""
        ...

    async def kill(self) -> None:
        """Kill all processes of the cluster at once."""
        ...


async def end(cluster: Running, again: asyncio.Event, progress: StartProgress) -> None:
    """End the cluster in order; if `again` is set before that is done, kill all processes. Print what the end waits
    for, and its completion.
    """
    progress.event("ending in order: the brokers hand over their bundles; Ctrl-C again ends everything at once")
    if not await unless(again, cluster.stop()):
        progress.event("ending at once")
        await cluster.kill()
    progress.event("stopped")


def _next_step(ready: ClusterReady) -> str:
    url = (ready.web_urls or ready.web_urls_tls)[0]
    return f"next: open {url}/ in a browser, or run `barycenter status --url {url}`"


async def _open_metadata(settings: ClusterSettings, lines: StartLines) -> None:
    """Open the metadata store before any broker does, so that a store that cannot be opened is reported at once.

    Raises:
        MetadataError: the store cannot be opened, or does not answer.
        WrongFolderError: the folder has ledgers, but their metadata is missing.
    """
    url = settings.metadata_store_url or f"sqlite:{settings.directory.metadata}"
    shown = url.rpartition("@")[2] if settings.metadata_store_url else url  # the part before an @ may be a password
    lines.phase("metadata", f"opening {shown}")
    began_s = time.monotonic()
    try:
        if not settings.metadata_store_url:
            check_metadata(settings.directory.root, settings.directory.metadata)
        store = await open_store(url, config_path=settings.configuration.get("metadataStoreConfigPath", ""))
        await store.close()
    except BaseException:
        lines.done("metadata", f"{shown} could not be opened")
        raise
    lines.done("metadata", f"{shown} opened after {time.monotonic() - began_s:.1f} s")
