"""What namespaces allow their topics: asked by the registry, answered from policies or from the configuration."""

from typing import Protocol

from barycenter.config.broker_config import BrokerConfig
from barycenter.naming.topic import TopicName


class TopicPolicies(Protocol):
    async def may_create(self, topic: TopicName) -> bool:
        """Tell whether a topic that does not exist is created when it is first used."""
        ...

    async def may_subscribe(self, topic: TopicName) -> bool:
        """Tell whether a subscription that does not exist is created when it is first used."""
        ...


class ConfiguredTopicPolicies:
    """The broker's configuration alone: every namespace is allowed the same."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    async def may_create(self, topic: TopicName) -> bool:
        return self._config.allow_auto_topic_creation

    async def may_subscribe(self, topic: TopicName) -> bool:
        return self._config.allow_auto_subscription_creation
