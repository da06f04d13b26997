"""Whole histories at once, spread over all of Spark: the second definition of what `stream` does step by step.

From the logs: `windows` (the closed form), `broker_averages`, `ownership_history` and `balance_history`, put together
in `whole_history`. From the table of samples, at scale: `refold`, with `late_samples` for those that are not in order.
`recorded` compares either with what the stream wrote; `output` writes either so that all tables appear at once;
`from_logs` does all of that for a data directory, and `check` for a range of time, both ways. Commands that ask for it
are left to `cli`.
"""
