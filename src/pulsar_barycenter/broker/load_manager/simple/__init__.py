"""The simple load manager: brokers report what they carry now, and bundles are placed by quotas.

`settings_watch` reads what the nodes below /loadbalance/settings override, `quota_store` the stored quotas. `load_data`
is what each broker knows of the cluster, `reporter` says when a report is due, `metrics` shows rank and quotas, and
`simple_load_manager` drives all of it. What it decides is in `load.simple`.
"""
