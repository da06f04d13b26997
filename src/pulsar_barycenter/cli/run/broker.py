"""`barycenter broker`: runs one broker with a broker.conf, until SIGTERM."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Final

import click
import msgspec
import structlog
import uvloop

from pulsar_barycenter.broker.start_errors import BrokerStartError, OpenToStrangersError
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError
from pulsar_barycenter.config.broker_conf import ConfigError, load_broker_conf
from pulsar_barycenter.credentials.errors import CredentialsError
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.load.advice.configuration_advice import key_advice
from pulsar_barycenter.load.managers import StrategyError
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.open import UnknownStoreError
from pulsar_barycenter.run.broker_process import serve
from pulsar_barycenter.run.process_log import configure_logging, log_level
from pulsar_barycenter.standalone.parent_watch import die_with_parent
from pulsar_barycenter.standalone.ready import BrokerReady, broker_line
from pulsar_barycenter.standalone.scheduling import take_short_turns
from pulsar_barycenter.terminal.errors import in_words

log = structlog.get_logger(__name__)

_CANNOT_START: Final = (
    BrokerStartError,
    ConfigError,
    CredentialsError,
    LedgerError,
    MetadataError,
    OSError,
    StrategyError,
    UnknownStoreError,
    WrongFolderError,
)


@click.command(name="broker")
@click.option("--config", "conf", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@with_format("text", "json", json="one object when the broker serves, with its URLs, data folder and process id")
def command(conf: Path, form: str) -> None:
    """Run one broker.

    The file has the format of Pulsar's broker.conf. The command prints one line when the broker serves clients; for a
    port that is 0 in the file, the line has the port that the system chose. After SIGTERM or Ctrl-C the broker hands
    over its bundles and leaves the cluster; a second signal ends it at once.

    Exit code: 0 after a signal or `POST /admin/v2/brokers/shutdown`; 1 after a failure.
    """
    die_with_parent()
    try:
        result = load_broker_conf(conf)
        level = log_level(result.config.barycenter_log_level, os.environ)
        configure_logging(as_json=not sys.stderr.isatty(), level=level)
        for unknown in key_advice(result.unknown_keys):
            log.warning("unknown_configuration_key", key=unknown.key, file=str(conf), mend=unknown.mend)
        opened_by = result.config.opened_to_strangers_by
        if opened_by is not None and not result.config.barycenter_unauthenticated_network_allowed:
            raise OpenToStrangersError(result.config.bind_address, opened_by)
        keep_private()
        Path(result.config.barycenter_data_dir).mkdir(parents=True, exist_ok=True)
        take_short_turns()
        uvloop.run(serve(result.config, partial(_say_ready, form)))
    except _CANNOT_START as error:
        fail(in_words(error))


def _say_ready(form: str, ready: BrokerReady) -> None:
    click.echo(msgspec.json.encode(ready) if form == "json" else broker_line(ready))
