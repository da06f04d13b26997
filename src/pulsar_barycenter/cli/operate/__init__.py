"""Having a cluster do something: one bundle moved, a plan of many carried out, a broker emptied.

`move` brings one bundle to a broker, `execute` carries out a plan of many; `carrying_out` is what both have in common:
it asks, tells progress and keeps the journal. Of such a plan `verify` tells what became, `cancel` has it begin nothing
more, and `undo` prints the way back. `drain` empties a broker, `undrain` lets it have bundles again.

Without --yes nothing is done: what would be is shown. What is done, and in which order, is `operations`.
"""
