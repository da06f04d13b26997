"""The simple load manager: brokers report their present load, and bundles are placed by quotas.

A quota is the load that is expected of a bundle. The leader learns quotas from reports, so a bundle can be placed
before it has load again. The decisions are in `load.simple`.

- `simple_load_manager` is the load manager; `reporter` writes this broker's reports.
- `load_data` is what a broker knows of the cluster: reports, quotas, the ranking of brokers, and assigned bundles.
- `quota_store` reads and writes the stored quotas; `settings_watch` reads the nodes below /loadbalance/settings, which
  override the configuration.
- `metrics` are the metrics of rank and quotas.
"""
