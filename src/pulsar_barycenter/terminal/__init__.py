"""The output on a terminal that several commands share.

`tables` fits a table to the width of the terminal, and makes texts safe to print; `cells` counts the columns of a text.
`progress` shows the progress of a long task, in the `live_lines` at the bottom of a terminal. `errors` returns the
message of an exception. `suggestions` finds names that are similar to a wrong one.

Packages other than `cli` print reports with this package. Options, exit codes and usage errors belong to `cli`.
"""
