"""What the no-op load manager would shed: there is nothing to ask."""

from barycenter.config.broker_config import BrokerConfig
from barycenter.load.strategies import NothingToDecideError, shedder_of

try:
    shedder_of(BrokerConfig(load_manager_class_name="NoopLoadManager"))
except NothingToDecideError as error:
    print(error)
