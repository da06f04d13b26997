"""The arithmetic of a history: values in, values out, without Spark, files or a clock.

Read `live_windows` (the averages of bundles and brokers after one more batch), `ownership` (who owned what and when),
`balance` (how even the load was) and `stretches` (the windows of long histories, piece by piece). The recurrence itself
is `load.reports.windows`; `stream` carries what is remembered from batch to batch, `batch` folds whole histories.
"""
