"""Where a client finds its topic, and what is done to the bundles of a namespace on request.

`service` answers lookups, for the binary protocol and for HTTP alike; it begins at what is known without waiting and
ends in a search that all who ask share. `owner_search` is one attempt of that search: who owns the bundle, or who
shall, and who may decide it. `namespace_service` unloads and splits bundles, and hands all of them over when the broker
leaves.

The lock itself is taken in `ownership`; the choice of a broker is the load manager's.
"""
