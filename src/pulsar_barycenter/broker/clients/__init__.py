"""The attached producers and consumers, as topics and subscriptions see them.

This package separates topics from the protocol: topics and subscriptions know producers and consumers, but neither
commands nor frames. `producer` and `consumer` have what a client asked for, its pending entries or permits, and its
`rates`. The protocols `Publishable` and `Consumable` next to them are what they need of a topic and of a subscription.
`link` is the interface of the connection: everything that a topic may send to a client. `wire` implements it with a
socket, the health check without one.
"""
