"""Producers and consumers that are attached, as topics and subscriptions see them.

`producer` and `consumer` hold what a client asked for, its permits or pending entries, and its `rates`; what they ask
of a topic and of a subscription stands beside them as a protocol, `Publishable` and `Consumable`. `link` is the
connection behind them: all that a topic may say to a client. `wire` implements it with a socket, the health check
without one.

Commands and frames are not known here, nor what becomes of an entry.
"""
