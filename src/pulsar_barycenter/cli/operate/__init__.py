"""The commands that move bundles: one bundle, a plan of moves, all bundles of a broker, or those of all brokers.

- `move` moves one bundle to a broker; `execute` carries out a plan. Both use `carrying_out`, which sends the requests,
  prints progress and writes the journal.
- `verify` checks the result of a plan, `cancel` stops it after the moves in progress, `undo` prints the reverse plan.
- `drain` empties a broker; `undrain` lets it get bundles again.
- `roll` restarts all brokers one after the other; `rolling` carries it out, and prints its plan and its end.

Without --yes a command only shows what it would do. The package `operations` decides what is done, and in which order.
"""
