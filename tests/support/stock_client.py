"""The Python client of Apache Pulsar, which reports errors only."""

import pulsar


def connect(url: str) -> pulsar.Client:
    return pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
