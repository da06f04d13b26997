"""The commands that move bundles: one bundle, a plan of moves, or all bundles of a broker.

- `move` moves one bundle to a broker; `execute` carries out a plan. Both use `carrying_out`, which sends the requests,
  prints progress and writes the journal.
- `verify` checks the result of a plan, `cancel` stops it after the moves in progress, `undo` prints the reverse plan.
- `drain` empties a broker; `undrain` lets it get bundles again.

Without --yes a command only shows what it would do. The package `operations` decides what is done, and in which order.
"""
