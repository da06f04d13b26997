"""`barycenter standalone`: a cluster on this machine until Ctrl-C."""

import asyncio
import signal
from collections.abc import Awaitable
from importlib.util import find_spec
from pathlib import Path

import click

from pulsar_barycenter.cli.failure import fail, in_words
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.config.broker_conf import ConfigError, load_broker_conf
from pulsar_barycenter.load.advice.configuration_advice import advice, key_advice
from pulsar_barycenter.metadata.open import UnknownStoreError, check_url
from pulsar_barycenter.standalone.cluster import OWN_KEYS, ClusterSettings, StandaloneCluster, read_configuration
from pulsar_barycenter.standalone.data_directory import DataDirectory, DataDirectoryLock
from pulsar_barycenter.standalone.errors import StandaloneError


@click.command(name="standalone")
@click.option("--brokers", default=1, show_default=True, type=click.IntRange(1, 64), help="Number of broker processes.")
@click.option("--data", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder of all state.")
@click.option(
    "--web-port", default=8080, show_default=True, type=click.IntRange(1, 65535), help="HTTP port of broker 0."
)
@click.option(
    "--broker-port", default=6650, show_default=True, type=click.IntRange(1, 65535), help="Binary port of broker 0."
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
    help="A metadataStoreUrl, such as zk:HOST:PORT.  [default: a SQLite file in the --data folder]",
)
@click.option(
    "--pipeline/--no-pipeline", default=None, help="Run the Spark pipeline.  [default: if PySpark is installed]"
)
def command(
    brokers: int,
    data: Path,
    web_port: int,
    broker_port: int,
    conf: Path | None,
    metadata_store_url: str,
    pipeline: bool | None,
) -> None:
    """Run a cluster on this machine.

    Broker i listens on the given ports plus i. Everything is kept in the --data folder, or all but the metadata
    with --metadata-store: the same command on the same folder goes on where it stopped. Ctrl-C ends the cluster in
    order, a second Ctrl-C at once.

    A broker that fails is started again. One that was asked to stop (POST /admin/v2/brokers/shutdown, or SIGTERM)
    stays down until this process gets SIGUSR1.
    """
    if metadata_store_url.startswith("memory:"):
        raise click.UsageError("--metadata-store memory: is of one process alone, and each broker is one")
    try:
        if metadata_store_url:
            check_url(metadata_store_url)
        configuration = checked_configuration(conf) if conf else {}
        keep_private()
        directory = DataDirectory(data.absolute())
        with DataDirectoryLock(directory):
            settings = ClusterSettings(
                directory,
                brokers=brokers,
                web_port=web_port,
                broker_port=broker_port,
                configuration=configuration,
                pipeline=_has_pipeline(pipeline),
                metadata_store_url=metadata_store_url,
            )
            asyncio.run(_run(settings))
    except (StandaloneError, ConfigError, UnknownStoreError, OSError) as error:
        fail(in_words(error))


def _has_pipeline(wanted: bool | None) -> bool:
    """Say whether the pipeline runs: as wanted, else if it can.

    Raises:
        ModuleNotFoundError: it is wanted, and there is no PySpark.
    """
    if wanted is False or find_spec("pyspark") is not None:
        return wanted is not False
    if wanted:
        raise ModuleNotFoundError(name="pyspark")
    click.echo("no pipeline: PySpark is not installed; pip install 'pulsar-barycenter[pipeline]' brings it", err=True)
    return False


def checked_configuration(conf: Path) -> dict[str, str]:
    """Return the keys of `conf`, warning of those that have no effect and of what they cannot do.

    Raises:
        ConfigError: a value is not in its key's range.
    """
    result = load_broker_conf(conf)
    for unknown in key_advice(result.unknown_keys):
        click.echo(f"barycenter: {conf}: unknown key {unknown.key} is ignored; {unknown.mend}", err=True)
    for each in advice(result.config):
        click.echo(f"barycenter: {conf}: {each.severity}: {each}", err=True)
    configuration = read_configuration(conf)
    for key in OWN_KEYS:
        if configuration.get(key):
            click.echo(f"barycenter: {conf}: {key} is ignored; standalone sets it by its options", err=True)
    return configuration


async def _run(settings: ClusterSettings) -> None:
    cluster = StandaloneCluster(settings, tell=lambda text: click.echo(text, err=True))
    stop, stop_now = asyncio.Event(), asyncio.Event()

    def interrupted() -> None:
        (stop_now if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted)
    loop.add_signal_handler(signal.SIGUSR1, cluster.start_again)

    if not await _unless(stop, cluster.start()):
        await cluster.kill()
        return
    web = ", ".join(broker.web_url for broker in cluster.brokers)
    click.echo(f"ready: {cluster.service_url} (web {web}); data in {settings.directory.root}")
    await stop.wait()
    if not await _unless(stop_now, cluster.stop()):
        await cluster.kill()


async def _unless(event: asyncio.Event, work: Awaitable[None]) -> bool:
    """Await `work` unless `event` is set first; tell whether the work was finished."""
    task = asyncio.ensure_future(work)
    waiter = asyncio.create_task(event.wait(), name="wait for a signal")
    await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    if task.done():
        await task
        return True
    task.cancel()
    await asyncio.wait({task})
    return False
