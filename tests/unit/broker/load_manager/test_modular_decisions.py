"""The strategy and the windows that the leader of the modular load manager uses, on virtual time."""

import asyncio
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.modular.modular_load_manager import ModularLoadManager
from pulsar_barycenter.config.broker_conf import default_config, with_overrides
from pulsar_barycenter.config.pulsar_version import COMPATIBILITY_KEY
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.reports.publication import PipelinePublication
from pulsar_barycenter.load.rounds.destinations import FilteredSelection
from pulsar_barycenter.load.shedding.shedder import Shedder, SheddingPlan
from pulsar_barycenter.load.strategies import MismatchedStrategiesError, UnknownStrategyError
from pulsar_barycenter.naming.bundle import Bundle
from support.balanced_cluster import Balanced, balanced, own, settled, shed_scenario, traffic
from support.control_cluster import ControlCluster, on_virtual_time
from support.virtual_time import LoopClock


def publication(brokers: list[Balanced], *, bundle: str, rate: float) -> PipelinePublication:
    """Return what a pipeline publishes that knows every report written so far."""
    newest = [each.report_log.reports[-1] for each in brokers]
    one = [1.0]
    return PipelinePublication(
        batch_id=1,
        published_at=0,
        as_of=max(report.last_update for report in newest),
        last_sequence={
            each.id: (report.incarnation, report.sequence) for each, report in zip(brokers, newest, strict=True)
        },
        bundle=[bundle],
        topics=[2],
        short_num_samples=[10],
        short_msg_rate_in=[rate],
        short_msg_rate_out=one,
        short_msg_throughput_in=one,
        short_msg_throughput_out=one,
        long_num_samples=[1000],
        long_msg_rate_in=[rate],
        long_msg_rate_out=one,
        long_msg_throughput_in=one,
        long_msg_throughput_out=one,
    )


def test_decisions_go_by_the_pipeline_while_it_keeps_up_and_by_the_own_fold_while_it_is_late() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(1)).bundles)
        b0, b1 = brokers = await balanced(cluster, 2)
        b0.configure(load_balancer_pipeline_max_lag_seconds=60.0)
        await own(cluster, b1, made[0])
        b1.carries(traffic(0, rate=7))
        await b1.report()
        await settled(brokers)

        def known_rate() -> float:
            known = b0.manager.load_data.known(str(made[0]))
            assert known is not None
            return known.long_term_data.msg_rate_in

        assert (known_rate(), b0.manager.pipeline_state().in_use) == (7, False)
        b0.pipeline.publication = publication(brokers, bundle=str(made[0]), rate=700)
        assert (known_rate(), b0.manager.pipeline_state().lag_ms) == (700, 0)
        snapshot = await (await b0.manager.leader()).snapshots.current()
        scores = snapshot.brokers.long.rate.tolist()
        assert scores[1] == pytest.approx(701 + 0), "a broker's averages are summed from the published windows"
        await b1.report()
        await settled(brokers)
        await asyncio.sleep(59)
        assert b0.manager.pipeline_state().in_use, "a report waits, but not for too long"
        await asyncio.sleep(2)
        assert (known_rate(), b0.manager.pipeline_state().is_late) == (7, True)
        b0.pipeline.publication = publication(brokers, bundle=str(made[0]), rate=900)
        assert (known_rate(), b0.manager.pipeline_state().in_use) == (900, True)

    on_virtual_time(scenario)


PACKAGE = "org.apache.pulsar.broker.loadbalance.impl."


def test_the_avg_shedder_moves_bundles_to_the_partner_it_chose() -> None:
    """90 and 10 % are paired: after two rounds half of the difference of 400 MB/s, four bundles, goes to b1 alone."""

    async def scenario(_: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0, b1, _b2 = brokers
        b0.configure(
            load_balancer_load_shedding_strategy=PACKAGE + "AvgShedder",
            load_balancer_load_placement_strategy=PACKAGE + "AvgShedder",
            load_balancer_distribute_bundles_evenly_enabled=False,
            max_unload_percentage=0.5,
        )
        await b0.do(lambda manager: manager.shed())
        assert b0.peers.unloads == []
        await b0.do(lambda manager: manager.shed())
        assert b0.peers.unloads == [(b0.id, str(bundle), b1.id) for bundle in bundles[:4]]
        assert "AvgShedder" in b0.told("unload")[0].sentence

    shed_scenario(scenario)


def test_a_planned_destination_that_filled_up_is_left_for_another_broker_since_5() -> None:
    """b1 is at 10 % when four bundles are planned for it, and at 90 % before they go: b2 at 20 % gets them."""

    async def scenario(_: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0, b1, b2 = brokers
        b0.broker.config.current = with_overrides(b0.broker.config.current, {COMPATIBILITY_KEY: "5.x"})
        leader = await b0.do(lambda manager: manager.leader())
        carry_out = leader._carry_out

        async def later(plan: SheddingPlan, shedder: Shedder[Any], selection: FilteredSelection) -> None:
            if len(plan):
                await b1.report(90)
                await settled(brokers)
            await carry_out(plan, shedder, selection)

        leader._carry_out = later
        await b0.do(lambda manager: manager.shed())
        await b0.do(lambda manager: manager.shed())
        assert b0.peers.unloads == [(b0.id, str(bundle), b2.id) for bundle in bundles[:4]]

    shed_scenario(scenario)


def test_moves_that_the_newest_reports_make_harmful_are_left_out_with_a_reason() -> None:
    """b1 and b2 are at 10 and 20 % when bundles of b0 at 90 % are planned for them, and at 95 % before these go. The
    next round chooses by the new load, and a refusal is logged once."""

    async def scenario(_: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0, b1, b2 = brokers
        b0.configure(
            load_balancer_load_shedding_strategy="LeastDisturbance",
            load_balancer_load_placement_strategy="LeastDisturbance",
        )
        leader = await b0.do(lambda manager: manager.leader())
        carry_out, planned = leader._carry_out, []

        async def later(plan: SheddingPlan, shedder: Shedder[Any], selection: FilteredSelection) -> None:
            if len(plan) and not planned:
                planned.extend(unload.bundle for unload in plan)
                for broker in (b1, b2):
                    await broker.report(95)
                await settled(brokers)
            await carry_out(plan, shedder, selection)

        leader._carry_out = later
        await b0.do(lambda manager: manager.shed())
        assert planned
        assert b0.peers.unloads == []
        refused = b0.told("refuse")
        assert [record.bundle for record in refused] == planned
        assert {record.reason.code for record in refused} == {Code.GAIN_IS_GONE}
        for broker in (b1, b2):
            await broker.report(10)
        await settled(brokers)
        await b0.do(lambda manager: manager.shed())
        assert {source for source, _, _ in b0.peers.unloads} == {b0.id}

    shed_scenario(scenario)


@pytest.mark.parametrize(
    ("shedder", "placer"),
    [
        ("UniformLoadShedder", "LeastResourceUsageWithWeight"),
        ("RangeThresholdShedder", "RoundRobinBrokerSelector"),
        ("DeviationShedder", "LeastLongTermMessageRate"),
    ],
)
def test_strategies_take_effect_by_their_names_while_the_broker_runs(shedder: str, placer: str) -> None:
    async def scenario(_: ControlCluster, brokers: list[Balanced], _bundles: list[Bundle]) -> None:
        b0 = brokers[0]
        b0.configure(
            load_balancer_load_shedding_strategy=PACKAGE + shedder,
            load_balancer_load_placement_strategy=PACKAGE + placer,
            max_unload_percentage=0.5,
        )
        await b0.do(lambda manager: manager.shed())
        assert {source for source, _, _ in b0.peers.unloads} == {b0.id}
        assert {record.strategy for record in b0.told("unload")} == {shedder}

    shed_scenario(scenario)


def test_the_avg_shedder_without_its_placement_is_refused_and_nothing_is_shed() -> None:
    async def scenario(_: ControlCluster, brokers: list[Balanced], _bundles: list[Bundle]) -> None:
        b0 = brokers[0]
        b0.configure(load_balancer_load_shedding_strategy="AvgShedder")
        with capture_logs() as logs:
            for _round in range(3):
                await b0.do(lambda manager: manager.shed())
        assert b0.peers.unloads == []
        refused = [entry["reason"] for entry in logs if entry["event"] == "shedding_strategy_refused"]
        assert "set loadBalancerLoadPlacementStrategy=AvgShedder as well" in refused[0]

    shed_scenario(scenario)


def test_a_broker_that_names_the_avg_shedder_for_placement_alone_does_not_start() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        b0 = Balanced(cluster, 8080)

        def factory(context: LoadManagerContext) -> ModularLoadManager:
            context.config.current = msgspec.structs.replace(
                default_config("4.x"), load_balancer_load_placement_strategy=PACKAGE + "AvgShedder"
            )
            return b0.factory(context)

        with pytest.raises(MismatchedStrategiesError, match="set loadBalancerLoadSheddingStrategy=AvgShedder as well"):
            await cluster.add(8080, factory)

    on_virtual_time(scenario)


def test_a_broker_that_names_an_unknown_strategy_does_not_start() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        b0 = Balanced(cluster, 8080)

        def factory(context: LoadManagerContext) -> ModularLoadManager:
            config = context.config.current
            context.config.current = msgspec.structs.replace(config, load_balancer_load_shedding_strategy="Nonsense")
            return b0.factory(context)

        with pytest.raises(UnknownStrategyError, match="Nonsense"):
            await cluster.add(8080, factory)

    on_virtual_time(scenario)


def test_the_log_says_once_that_the_pipeline_is_late_and_once_that_it_is_back() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (b0,) = brokers = await balanced(cluster, 1)
        b0.configure(load_balancer_pipeline_max_lag_seconds=10.0)
        b0.pipeline.publication = publication(brokers, bundle="t/n/0x00000000_0xffffffff", rate=1)
        with capture_logs() as events:
            await b0.report()
            await asyncio.sleep(30)
            assert metric(b0, "barycenter_pipeline_in_use") == 0
            assert metric(b0, "barycenter_pipeline_lag_seconds") > 10
            b0.pipeline.publication = publication(brokers, bundle="t/n/0x00000000_0xffffffff", rate=1)
            await asyncio.sleep(30)
            assert metric(b0, "barycenter_pipeline_in_use") == 1
        told = [event["event"] for event in events if event["event"].startswith("pipeline_")]
        assert told == ["pipeline_late", "pipeline_back"]

    on_virtual_time(scenario)


def metric(broker: Balanced, name: str) -> float:
    labels = {"cluster": "standalone", "broker": broker.id}
    value = broker.manager.metrics.registry.get_sample_value(name, labels)
    assert value is not None
    return value


def test_steady_load_is_told_from_a_pipeline_that_stopped() -> None:
    """No report waits in either case, and the leader decides by the publication; only the last look differs."""

    async def scenario(cluster: ControlCluster) -> None:
        (b0,) = brokers = await balanced(cluster, 1)
        b0.configure(load_balancer_pipeline_max_lag_seconds=10.0)
        await b0.report()
        b0.pipeline.publication = publication(brokers, bundle="t/n/0x00000000_0xffffffff", rate=1)
        with capture_logs() as events:
            for silent_s, is_silent in ((3, False), (11, True), (2, False)):
                b0.pipeline.looked_at_ms = LoopClock().now_ms() - 1000 * silent_s
                await b0.broker.run(b0.manager.write_report())
                state = b0.manager.pipeline_state()
                assert (state.in_use, state.lag_ms, state.is_silent) == (True, 0, is_silent)
                assert metric(b0, "barycenter_pipeline_silent_seconds") == silent_s
        told = [(event["event"], event["log_level"]) for event in events if event["event"].startswith("pipeline_")]
        assert told == [("pipeline_silent", "warning"), ("pipeline_looks_again", "info")]

    on_virtual_time(scenario)
