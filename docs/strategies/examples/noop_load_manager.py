"""What the no-op load manager would shed: there is nothing to ask."""

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.strategies import NothingToDecideError, shedder_of

try:
    shedder_of(BrokerConfig(load_manager_class_name="NoopLoadManager"))
except NothingToDecideError as error:
    print(error)
