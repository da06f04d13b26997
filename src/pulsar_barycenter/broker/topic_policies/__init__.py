"""The policies of single topics: they are stored in a system topic of the namespace, which every broker reads that
serves topics of the namespace.

Problem: the owner of a topic must know the topic's own policies before a client attaches, and must follow a change
that was requested from another broker. Rule: the policies of all topics of a namespace are the newest messages of the
topic `__change_events` of that namespace, by key. A broker reads this topic as long as it serves topics of the
namespace. It loads no topic before it has read the policies to the end. Only the owner of `__change_events` changes
policies, one change after the other, so that no change is lost. A namespace without that topic has no policies of
topics; the first change creates it.

- `avro_binary` encodes values of an Avro schema, `events` the messages with it.
- `namespace_view` reads and changes the policies of one namespace; `policy_views` has the views of a broker.

How a topic's own policies and those of its namespace are combined is in `namespaces.own_policies`.
Source: Pulsar's `SystemTopicBasedTopicPoliciesService`.
"""
