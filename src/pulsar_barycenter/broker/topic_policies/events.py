"""Encodes and decodes the messages of the topic `__change_events`: each has the policies of one topic, or says that it
has none.

The key of a message is the name of the topic, without a partition; the value is a `PulsarEvent` in Avro's binary form,
with the schema in `pulsar_event.avsc`. Brokers of Pulsar 4.2 and 5.0 write the same bytes. A null value deletes the
policies.

Source: Pulsar's `PulsarEvent`, `TopicPoliciesEvent`, `SystemTopicBasedTopicPoliciesService`.
"""

from importlib.resources import files
from typing import Any, Final

import msgspec

from pulsar_barycenter.broker.namespaces.own_policies import OwnPolicies
from pulsar_barycenter.broker.topic_policies.avro_binary import AvroCodec, NotOfSchemaError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import CHANGE_EVENTS, PERSISTENT, TopicName

_GLOBAL_KEY: Final = "__G__"
"""How the key of a message begins whose policies are copied to other clusters; `TopicPoliciesService.wrapEventKey`."""
_CODEC: Final = AvroCodec(msgspec.json.decode(files(__package__).joinpath("pulsar_event.avsc").read_bytes()))


def events_topic(namespace: NamespaceName) -> TopicName:
    """Return the system topic that stores the policies of a namespace's topics: `__change_events` in the same
    namespace.
    """
    return TopicName.of(PERSISTENT, namespace, CHANGE_EVENTS)


def key_of(topic: TopicName) -> str:
    """Return the key of the messages that set the policies of a topic. All partitions of a topic have the key, and so
    the policies, of their partitioned topic.
    """
    return str(topic.partitioned_name)


def is_key(key: str) -> bool:
    """Return whether a message with this key sets policies for this cluster. If not, it sets policies that Pulsar
    copies to other clusters, which this broker does not use.
    """
    return not key.startswith(_GLOBAL_KEY)


def encode_event(topic: TopicName, policies: OwnPolicies, cluster: str) -> bytes:
    """Return the value of the message that sets the policies of a topic; `cluster` is the name of this cluster.

    Raises:
        NotOfSchemaError: a value of the policies has another type than its field in the schema.
    """
    base = topic.partitioned_name
    fields = {"isGlobal": False, "backLogQuotaMap": {}, "subscriptionPolicies": {}, **msgspec.to_builtins(policies)}
    fields.setdefault("subscriptionTypesEnabled", [])
    event = {
        "domain": base.domain,
        "tenant": base.namespace.tenant,
        "namespace": base.namespace.local_name,
        "topic": base.local_name,
        "policies": fields,
    }
    return _CODEC.encode(
        {"actionType": "UPDATE", "eventType": "TOPIC_POLICY", "replicateTo": [cluster], "topicPoliciesEvent": event}
    )


def decode_event(value: bytes) -> OwnPolicies:
    """Decode the policies that a message sets. Return empty policies if the message is an event of another type.

    Raises:
        NotOfSchemaError: the value is not a `PulsarEvent`.
    """
    event = _CODEC.decode(value)
    of_topic: dict[str, Any] | None = event["topicPoliciesEvent"]
    if event["eventType"] != "TOPIC_POLICY" or of_topic is None or of_topic["policies"] is None:
        return OwnPolicies()
    set_fields = {name: field for name, field in of_topic["policies"].items() if field not in (None, {}, [])}
    set_fields.pop("isGlobal", None)
    try:
        return msgspec.convert(set_fields, OwnPolicies)
    except msgspec.ValidationError as error:
        raise NotOfSchemaError(f"the policies cannot be used: {error}") from error
