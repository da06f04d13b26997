"""Reads the broker.conf of a broker, on the machine where the doctor runs."""

from pulsar_barycenter.config.broker_conf import ConfigError, keys, parse_broker_conf, read_conf_text, read_pairs
from pulsar_barycenter.doctor.picture import FileView


def read_file(path: str) -> FileView:
    """Return which keys of a broker.conf brokers do not know, or why no broker can start with the file."""
    try:
        text = read_conf_text(path)
        parse_broker_conf(text, path)
        return FileView(path, tuple(name for name in read_pairs(text, path) if name not in keys()))
    except (ConfigError, OSError) as error:
        return FileView(path, failure=str(error))
