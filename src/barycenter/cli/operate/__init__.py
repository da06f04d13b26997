"""Having a cluster do something: `move` one bundle, `execute` a plan of many.

Without --yes nothing is done: what would be is shown. `carrying_out` asks, tells progress and keeps the journal.
"""
