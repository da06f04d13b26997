"""The attached producers and consumers, as topics and subscriptions see them.

This package separates topics from the protocol: topics and subscriptions know producers and consumers, but neither
commands nor frames. `producer` and `consumer` have the options that a client requested, its pending entries or permits,
and its `rates`. The protocols `Publishable` and `Consumable` in these modules are the interfaces of a topic and of a
subscription that they use. `link` is the interface of the connection: everything that a topic may send to a client.
`wire` implements it with a socket, the health check without one.
"""
