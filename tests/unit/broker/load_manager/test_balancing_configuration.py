"""The part of a broker's configuration in a snapshot: it decides, and is advised on, as the whole configuration."""

from pulsar_barycenter.broker.load_manager.balancing_configuration import balancing_configuration
from pulsar_barycenter.config.broker_conf import with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.advice.configuration_advice import advice

FAST_ROUNDS = {
    "loadBalancerSheddingIntervalMinutes": "0.2",
    "loadBalancerSheddingGracePeriodMinutes": "1",
    "loadBalancerHostUsageCheckIntervalMinutes": "0.1",
}


def test_advice_on_a_snapshot_is_that_on_the_configuration_of_its_broker() -> None:
    for stats_s, keys in (("6", []), ("13", ["loadBalancerSheddingIntervalMinutes"])):
        settings = FAST_ROUNDS | {"statsUpdateFrequencyInSecs": stats_s}
        saved = balancing_configuration(with_overrides(BrokerConfig(), settings | {"webServicePort": "8081"}))
        assert saved == {"barycenterPulsarCompatibility": "5.x"} | settings
        assert [hint.key for hint in advice(with_overrides(BrokerConfig(), saved))] == keys
