"""Where a client finds its topic, and what is done to the bundles of a namespace on request.

`service` answers lookups, for the binary protocol and for HTTP alike; it begins at what is known without waiting and
ends in a search that all who ask share. One attempt of that search says who owns the bundle, or who shall, and who may
decide it: `owner_search` where bundles are owned by locks, `channel_search` where by records of the ownership channel.
Answers that lead to a dead broker are found by `dead_ends`. While a cluster changes over to another load manager,
`newest_manager` sends clients to brokers that run it. `namespace_service` unloads and splits bundles, and hands all of
them over when the broker leaves.

The lock itself is taken in `ownership`; the choice of a broker is the load manager's.
"""
