"""Counts the bytes of Python objects that a loaded topic with one subscription takes, with and without policies.

`python -m benchmarks topic_memory`: topics are loaded by one broker in this process, and tracemalloc counts. So other
processes do not matter.
"""

import argparse
import asyncio
import gc
import sys
import tracemalloc
from pathlib import Path
from typing import Any, Final

import structlog

from benchmarks.machine import print_table
from benchmarks.message_bytecode import RULES, SETTINGS, with_rules
from pulsar_barycenter.broker.namespaces import topic_rules
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.position import EARLIEST
from pulsar_barycenter.naming.topic import TopicName

_UNCOUNTED: Final = 20
"""The topics that are loaded before counting, so that caches are filled."""


async def bytes_of_topic(policies: str, topics: int) -> float:
    """Return the mean size of a topic of a broker with these policies, in bytes."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.one_broker import OneBroker

    broker: Any = OneBroker(BrokerConfig(**SETTINGS[policies]))  # type: ignore[arg-type]
    with_rules(broker, RULES[policies](topic_rules) if policies in RULES else {})
    await _load(broker, "first", _UNCOUNTED)
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    await _load(broker, "counted", topics)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    await broker.stop()
    return (after - before) / topics


async def _load(broker: Any, prefix: str, topics: int) -> None:
    for number in range(topics):
        name = TopicName.parse(f"persistent://public/default/{prefix}-{number:06}")
        topic = await broker.registry.get_or_create(name, create=True)
        async with topic.lock:
            await topic.create_subscription("s", EARLIEST)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=500)
    parser.add_argument("--policies", nargs="+", choices=SETTINGS, default=[*SETTINGS])
    arguments = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    tracemalloc.start()
    sizes = {name: asyncio.run(bytes_of_topic(name, arguments.topics)) for name in arguments.policies}
    none = next(iter(sizes.values()))
    rows: list[list[object]] = [[name, size, f"{(size / none - 1) * 100:+.1f} %"] for name, size in sizes.items()]
    print_table(
        f"Python objects of a topic, {arguments.topics} topics", ["policies", "bytes a topic", "difference"], rows
    )


if __name__ == "__main__":
    main()
