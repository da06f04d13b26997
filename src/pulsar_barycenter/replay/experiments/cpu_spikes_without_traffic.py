"""Another process makes the CPU of a broker jump for a minute."""

from pulsar_barycenter.replay.events import BrokerSlowed
from pulsar_barycenter.replay.experiments.experiment import (
    AVG,
    Experiment,
    carrying,
    cluster_of,
    seen,
    steadily,
    traffic,
)
from pulsar_barycenter.replay.experiments.load_starts import BROKERS
from pulsar_barycenter.replay.scenario import Setup, minutes

LOADS = (77, 87, 53, 73, 80)
SPIKED = BROKERS[2]
SPIKE = 20


def make(seed: int) -> Setup:
    sizes, owners = carrying(BROKERS, LOADS, 64, seed)
    cluster, slowed = cluster_of(BROKERS, LOADS, (55.0, 51.3, 50.0, 54.6, 59.1), 22)
    usual = next(each.factor for each in slowed if each.broker == SPIKED)
    spikes = ((SPIKE, 86.5 / 50), (SPIKE + 1, 1.0), (SPIKE + 7, 70 / 50), (SPIKE + 8, 1.0))
    events = (BrokerSlowed(minutes(at), SPIKED, usual * factor) for at, factor in spikes)
    return Setup(traffic(steadily(sizes, 60, seed), owners), cluster, (*slowed, *events))


EXPERIMENT = Experiment(
    "cpu-spikes-without-traffic",
    "Five brokers at 50 to 59 % CPU. The CPU of one jumps to 86.5 % for a minute, and later to 70 %,"
    " with the same traffic.",
    "Practical Optimization of Apache Pulsar, 5.5.2; apache/pulsar#22946",
    (AVG,),
    make,
    since=SPIKE,
    observed=(seen(AVG, "unloads", "==", 0, "0", "a gap of 35 points must last for eight rounds"),),
)
