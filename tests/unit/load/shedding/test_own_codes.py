"""A shedder may give its brokers any code: a plan goes by what the shedder decided, not by the code of a reason."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import pytest

from pulsar_barycenter.load.reasons import Code, Reason, render
from pulsar_barycenter.load.shedding.plan import ShedPlan, take_heaviest
from pulsar_barycenter.load.shedding.shedder import Shedder
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Floats, LoadSnapshot
from support.load_cases import Cluster, equal_bundles

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig


@dataclass(frozen=True, slots=True)
class OwnVerdicts:
    code: Code
    sheds: Flags

    @property
    def need(self) -> Floats:
        return np.where(self.sheds, 1e9, 0.0)

    def overall(self, snapshot: LoadSnapshot) -> Reason:
        return Reason(code=Code.BALANCED, strategy=OwnShedder.name)

    def broker(self, snapshot: LoadSnapshot, broker: int) -> Reason:
        code = self.code if self.sheds[broker] else Code.BELOW_LIMIT
        return Reason(code=code, strategy=OwnShedder.name, subject=snapshot.brokers.names[broker])


@dataclass(frozen=True)
class OwnShedder(Shedder[None]):
    """Sheds from the brokers named, for the reason `code`; at most `most` bundles."""

    name: ClassVar[str] = "OwnShedder"

    code: Code
    givers: tuple[str, ...]
    most: int = 100

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        raise NotImplementedError

    def start(self) -> None:
        return None

    def decide(self, snapshot: LoadSnapshot, memory: None) -> tuple[ShedPlan, None]:
        sheds = np.isin(snapshot.brokers.names, self.givers)
        verdicts = OwnVerdicts(self.code, sheds)
        rows, before, waiting = take_heaviest(snapshot, sheds, verdicts.need, self.most)
        return ShedPlan(self.name, snapshot, verdicts, rows, before, waiting=waiting), None


def decided(shedder: OwnShedder) -> ShedPlan:
    """Return its plan for b0 and b1 with two bundles each, and b2 with none."""
    cluster = Cluster()
    for number in range(2):
        cluster.add(f"b{number}", cpu=90, bundles=equal_bundles(2, throughput=1e8, first=10 * number))
    cluster.add("b2", cpu=10, bundles={})
    return shedder.decide(cluster.snapshot(), None)[0]


@pytest.mark.parametrize("code", Code)
def test_a_broker_that_sheds_is_reported_so_whatever_the_code(code: Code) -> None:
    plan = decided(OwnShedder(code, ("b0", "b2")))
    given, kept, empty = (plan.broker_reason(row).code for row in range(3))
    assert {unload.source for unload in plan} == {"b0"}
    assert (given, kept, empty) == (code, Code.BELOW_LIMIT, Code.NO_SHEDDABLE_BUNDLE)
    assert [refusal.reason.code for refusal in plan.refusals()] == [Code.BELOW_LIMIT, Code.NO_SHEDDABLE_BUNDLE]


@pytest.mark.parametrize("code", Code)
def test_a_broker_that_waits_for_the_next_round_is_reported_so_whatever_the_code(code: Code) -> None:
    plan = decided(OwnShedder(code, ("b0", "b1"), most=1))
    waiting = {refusal.subject: refusal.reason for refusal in plan.refusals()}
    left = waiting["b1" if next(iter(plan)).source == "b0" else "b0"]
    assert (left.code, left.cause.code if left.cause else None) == (Code.ROUND_FULL, code)


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_sentence(code: Code) -> None:
    assert render(Reason(code=code)).strip()
