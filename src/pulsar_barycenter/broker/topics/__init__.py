"""The topics that this broker has in memory: they accept messages, store them and answer the producers.

Problem: a topic has one owner at a time. It must not accept a message before this broker owns its bundle, nor
acknowledge one after it lost the bundle. Rule: a topic is loaded under a term of ownership of its bundle and closed
before this term ends. In between it goes through a few states, and each state says which requests are accepted.

- Loading and closing. `registry` loads topics and is the only way to get one; `states` is the table of states and
  events; `departures` runs the tasks that close, transfer and delete topics; `preparations` opens topics in advance
  that another broker is about to transfer to this one.
- Messages. `topic` is what both kinds of topic share: producers, state, stats. `persistent_topic` appends entries to a
  managed ledger and sends receipts when they are durable; `non_persistent_topic` passes messages on and stores none.
  `deduplication` drops messages that a producer sent twice.
- Clients. `limits` bounds the number of producers, consumers and subscriptions; `intake` checks size, delay and rate of
  what producers send, `group_throttles` has the rates of resource groups, `delivery_rates` those of deliveries, and
  `subscribe_limit` how often consumers attach. `producer_access` decides which producers may be attached at the same
  time; `producer_admission` carries this out.
- Backlogs. `backlogs` expires old messages and enforces backlog quotas.
- Other parts. `stats` shows stats in the form of the admin API, `backlog_age` the age of backlogs; `topic_settings`
  reads the configuration; `upkeep` is the periodic work on all topics.

Three things are decided elsewhere: `subscriptions` deliver messages, `ledger` makes them durable, and `ownership`
decides whether this broker may serve a topic.
"""
