"""Ports for trial clusters, of which several may start at the same time."""

import random

from pulsar_barycenter.standalone.cluster import free_ports


def test_processes_that_are_seeded_alike_are_given_other_ports() -> None:
    random.seed(1)
    drawn = [free_ports(2)]
    for _ in range(3):
        random.seed(1)
        drawn.append(free_ports(2))
    assert len({tuple(ports) for ports in drawn}) > 1
