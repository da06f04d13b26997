"""The simple load manager's way of deciding: by quotas learned of bundles, and brokers ranked by them.

Read `settings`, `quotas` (what each bundle is expected to need), `ranking` (how loaded that makes each broker),
`placement` (who gets a bundle), then `shedding` and `splitting`.

Its reports are in `reports.simple_load_report`, its live half in `broker.load_manager.simple`.
"""
