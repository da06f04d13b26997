"""`barycenter import`: the group of the commands that make load reports of what other programs stored."""

from typing import Final

from pulsar_barycenter.cli.groups import LazyCommandGroup

_COMMANDS: Final = {
    "prometheus": ("record.import_prometheus", "Make load reports of Pulsar's metrics in a Prometheus, or in files."),
}

command = LazyCommandGroup(
    modules=_COMMANDS, name="import", help="Make load reports of stored metrics, without waiting for a recording."
)
