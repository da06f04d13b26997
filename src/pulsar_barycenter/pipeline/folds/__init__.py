"""The arithmetic of a history: values in, values out, without Spark, files or a clock.

Read `live_windows` (the averages of bundles and brokers after one more batch), `bundle_rows` (the windows of all
bundles, of which a batch changes some), `ownership` (who owned what and when), `owners` (which folds that),
`broker_sums` (the averages of all brokers, of which a batch changes some), `balance` (how even the load was) and
`stretches` (the windows of long histories, piece by piece). The recurrence itself is `load.reports.windows`; `stream`
carries what is remembered from batch to batch, `batch` folds whole histories.
"""
