"""Runs collection rounds until the command ends, with the report log, the report numbers and Pulsar's client."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from pulsar_barycenter.admin.client import AdminClient, NewClient
from pulsar_barycenter.admin.client_conf import ClientConf
from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog, ReportLog
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.observer.answers import CERTIFICATES_VARIABLE
from pulsar_barycenter.observer.collected_snapshot import keep_snapshot
from pulsar_barycenter.observer.collector import CollectError, Collector, ExtensibleTopics, PoliciesSource, Round
from pulsar_barycenter.observer.recorded_policies import PoliciesFile
from pulsar_barycenter.observer.recorded_settings import SETTINGS_FILE, append_settings
from pulsar_barycenter.observer.report_numbers import ReportNumbers
from pulsar_barycenter.whole_files.appearing import make_folder
from pulsar_barycenter.whole_files.locked_folder import FolderInUseError, locked_folder

_TIMEOUT_S: Final = 20.0
_MAX_ANSWER_BYTES: Final = 256 * 2**20
"""The limit of one answer: the load report of a broker with half a million bundles has this size."""
_SNAPSHOT: Final = "snapshot.json"
_SUBSCRIPTION: Final = "barycenter-collect"
"""The subscription to the load topics. Pulsar accepts one consumer of it, and so refuses a second collector of a
cluster.
"""
_ERRORS: Final = "/dev/stderr"

Tell: TypeAlias = Callable[[Round | str], None]
"""A function that gets the result of a round, or a text that says why the round failed."""

NewPolicies: TypeAlias = Callable[[AdminClient], PoliciesSource]
"""A function that returns a reader of the rules of administrators, which sends its requests with the given client."""


@dataclass(frozen=True, slots=True)
class Collection:
    """The options of a collection: the brokers at `urls` are queried every `interval_s`, into the data folder `out`.

    The collection ends after `rounds` rounds or at a signal; if `rounds` is 0, only at a signal. Reports older than
    `keep_days` days are deleted. `service_url` is needed if brokers run the extensible load manager.
    """

    urls: Sequence[str]
    out: Path
    interval_s: float
    rounds: int
    keep_days: float
    service_url: str | None


async def collect_rounds(
    new_client: NewClient, conf: ClientConf, wanted: Collection, tell: Tell, new_policies: NewPolicies
) -> bool:
    """Collect the load reports of the brokers, round after round, until `wanted.rounds` rounds are done, or until
    SIGINT or SIGTERM; return whether the last round succeeded. A later round that fails is passed to `tell` as text,
    and the next round follows.

    `conf` has the credentials and the trusted authorities for Pulsar's client. `new_client` makes the client for HTTP
    requests, `new_policies` the source from which the rules of administrators are read.

    Raises:
        CollectError: the first round failed, or another process records into the folder.
        OSError: the folder cannot be written.
    """
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with locked_for_recording(wanted.out):
        report_log = FileReportLog(wanted.out / "load-reports", retention_hours=wanted.keep_days * 24)
        try:
            async with open_collector(
                new_client,
                conf,
                wanted,
                report_log,
                partial(keep_snapshot, wanted.out / _SNAPSHOT),
                subscription=_SUBSCRIPTION,
                new_policies=new_policies,
            ) as collector:
                return await collect_until(collector, stop, wanted.interval_s, wanted.rounds, tell)
        finally:
            report_log.close()


@contextmanager
def locked_for_recording(out: Path) -> Iterator[None]:
    """Lock the folder `out` while the block runs. Create the folder if it does not exist. Without the lock, two
    processes that record into the folder could give different reports the same number.

    Raises:
        CollectError: another process records into the folder.
        OSError: the folder cannot be created or opened.
    """
    make_folder(out)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_folder(out))
        except FolderInUseError:
            raise CollectError(
                f"another process records into {out}; wait until it has ended, or give another folder"
            ) from None
        yield


@asynccontextmanager
async def open_collector(
    new_client: NewClient,
    conf: ClientConf,
    wanted: Collection,
    report_log: ReportLog,
    keeps: Callable[[SnapshotDocument], None],
    *,
    subscription: str,
    new_policies: NewPolicies | None = None,
) -> AsyncIterator[Collector]:
    """Open a collector that numbers its reports in `wanted.out` and appends them to `report_log`; close it when the
    block ends.

    The settings of the cluster are recorded in `wanted.out`, too; the rules of administrators only if `new_policies` is
    given. `keeps` receives the snapshot of brokers with the extensible load manager in each round. `subscription` is
    the name of the subscription to the load topics; only one process may use it at a time.

    Raises:
        OSError: the file of the report numbers cannot be read.
    """
    client = new_client(timeout_s=_TIMEOUT_S, most_bytes=_MAX_ANSWER_BYTES)
    clients: list[Any] = []

    def open_topics() -> ExtensibleTopics:
        opened, topics = open_load_topics(str(wanted.service_url), conf, subscription)
        clients[:] = [opened]
        return topics

    try:
        yield Collector(
            wanted.urls,
            client,
            report_log,
            ReportNumbers(wanted.out / "collect.json", now_ms=_now_ms()),
            clock_ms=_now_ms,
            extensible=open_topics if wanted.service_url else None,
            keep_snapshot=keeps,
            keep_settings=partial(append_settings, wanted.out / SETTINGS_FILE),
            source_of_policies=None if new_policies is None else new_policies(client),
            keep_policies=PoliciesFile(wanted.out).note,
        )
    finally:
        await client.close()
        for client_of_topics in clients:
            client_of_topics.close()


def open_load_topics(service_url: str, conf: ClientConf, subscription: str) -> tuple[Any, ExtensibleTopics]:
    """Subscribe to the load topics of the extensible load manager; return Pulsar's client, which the caller closes, and
    the topics. Blocks the calling thread. `conf` has the credentials and the trusted authorities. `subscription` is the
    name of the subscription; only one process may use it at a time. The client writes its errors to standard error.

    Raises:
        CollectError: the topics cannot be reached.
    """
    import pulsar  # only the load topics need it

    from pulsar_barycenter.observer.extensible_topics import PulsarExtensibleTopics

    clients: list[Any] = []
    try:
        clients.append(binary_client(service_url, conf))
        return clients[0], PulsarExtensibleTopics(clients[0], subscription)
    except (pulsar.PulsarException, ValueError) as error:
        for client in clients:
            client.shutdown()
        trust = f" and {CERTIFICATES_VARIABLE}" if service_url.startswith("pulsar+ssl:") else ""
        raise CollectError(
            f"cannot read the load topics at {service_url}: {error}; check --service-url{trust}"
        ) from error


async def collect_until(collector: Collector, stop: asyncio.Event, interval_s: float, rounds: int, tell: Tell) -> bool:
    """Collect load reports every `interval_s` seconds, for `rounds` rounds (0: without an end) or until `stop` is set;
    return whether the last round succeeded. A later round that fails is passed to `tell` as text, and the next round
    follows.

    Raises:
        CollectError: the first round failed.
    """
    loop = asyncio.get_running_loop()
    due, number, is_well = loop.time(), 0, False
    while True:
        number += 1
        try:
            tell(await collector.collect())
            is_well = True
        except CollectError as error:
            if number == 1:
                raise
            is_well = False
            tell(str(error))
        due = max(due + interval_s, loop.time())
        if number == rounds:
            return is_well
        try:
            await asyncio.wait_for(stop.wait(), due - loop.time())
        except TimeoutError:
            continue
        return is_well


def binary_client(service_url: str, conf: ClientConf) -> Any:
    """Return Pulsar's client for the binary protocol, with the credentials and the trusted authorities of `conf`; the
    caller closes it. The client writes its errors to standard error.

    Raises:
        pulsar.PulsarException, ValueError: the address or the credentials are not valid.
    """
    import pulsar

    # its console logger would print between the lines of a command's output; with a logger of Python, a thread of the
    # client that logs while the interpreter ends would abort the process
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, _ERRORS)
    return pulsar.Client(service_url, logger=logger, **_binary_options(conf))


def _binary_options(conf: ClientConf) -> dict[str, Any]:
    """Return the options with which Pulsar's client uses the credentials and trusted authorities of `conf` on the
    binary protocol.
    """
    import pulsar

    shows, tls = conf.shows, conf.tls
    options: dict[str, Any] = {}
    if shows.method == "token":
        options["authentication"] = pulsar.AuthenticationToken(shows.token_in_thread)
    elif shows.method == "basic":
        user, _, password = (shows.auth_data() or b"").decode().partition(":")
        options["authentication"] = pulsar.AuthenticationBasic(user, password)
    elif shows.certificate_file:
        options["authentication"] = pulsar.AuthenticationTLS(shows.certificate_file, shows.key_file)
    trusted = (tls.trust_file if tls is not None else "") or os.environ.get(CERTIFICATES_VARIABLE)
    if trusted:
        options["tls_trust_certs_file_path"] = trusted
    if tls is not None:
        options |= {
            "tls_allow_insecure_connection": not tls.verifies,
            "tls_validate_hostname": tls.verifies and tls.verifies_host_name,
        }
    return options


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
