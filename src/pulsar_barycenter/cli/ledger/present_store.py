"""The options that name a stopped data folder and the metadata store of its brokers."""

from dataclasses import dataclass
from pathlib import Path

import click

from pulsar_barycenter.cluster_logs.data_folder import METADATA as METADATA_FILE

DATA = click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Data folder of the brokers, which must not be running.",
)
METADATA = click.option(
    "--metadata",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The metadata store's file.  [default: metadata.sqlite in the data folder]",
)
STORE = click.option(
    "--metadata-store",
    "url",
    default="",
    metavar="URL",
    help="The brokers' metadataStoreUrl, if it is not a file in the data folder.",
)
STORE_CONFIG = click.option(
    "--store-config",
    default="",
    type=click.Path(dir_okay=False),
    help="The metadataStoreConfigPath: TLS, user and password of the store.",
)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The metadata store that the options name: `file`, an SQLite file, or `url` with its `metadataStoreConfigPath`."""

    file: Path | None
    url: str
    config_path: str = ""


def store_of(data: Path, metadata: Path | None, url: str, config_path: str) -> StoreOptions:
    if metadata is not None and url:
        raise click.UsageError("--metadata names a file, --metadata-store any store: give one of them")
    if url:
        return StoreOptions(None, url, config_path)
    file = metadata or data / METADATA_FILE
    return StoreOptions(file, f"sqlite:{file}")
