"""A Pulsar-compatible broker cluster that balances itself, with its load-data pipeline on Spark.

Each folder is a package, which its docstring explains; it imports earlier packages only. In their order:

`naming`, `config`, `protocol`, `credentials`, `html_pages`, `terminal`, `whole_files`, `bounds` import no other
package: names and hashes, the keys of broker.conf, Pulsar's frames, credentials, HTML pages, tables on a terminal,
files that appear as a whole, bounded maps and back-off.
`metadata` is the state that brokers share, `bookkeeper` is a client of Apache BookKeeper, `load` decides about load and
gives the reasons, `ledger` stores messages. `cluster_logs` are the files that a cluster writes, `admin` is the client
of its REST interface, `dashboard` has its pages. `broker` is one running broker, `pipeline` makes tables and averages
from load reports, `history` gives these to programs as tables and answers.

The other packages serve people: `snapshots` are read from files to decide upon, `replay` tries strategies in virtual
time, `observer` records a cluster, `lab` replays recordings and advises, `doctor` diagnoses a cluster, `status` shows
it, `operations` move its bundles, `balancer` balances it from outside, `watch` shows it from outside, `questions` ask
why, `screen` follows it.
`standalone` and `demo` start whole clusters, `run` runs one broker, `testing` starts clusters for tests, `strategies`
is for strategies of others. `cli` is the program `barycenter`, also started by `python -m pulsar_barycenter`
(`__main__`).

Five journeys through the packages, file by file, are in docs/architecture.md.
"""

from functools import lru_cache
from typing import Final

DISTRIBUTION: Final = "pulsar-barycenter"
"""The name to install it by. `barycenter` on the Python package index is astronomy software of other people."""


@lru_cache(maxsize=1)
def version() -> str:
    """Return the version of the installed distribution; "0.0.0" when the sources run uninstalled."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of(DISTRIBUTION)
    except PackageNotFoundError:
        return "0.0.0"
