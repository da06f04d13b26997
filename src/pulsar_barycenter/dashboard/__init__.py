"""The dashboard: its pages, and the pure part of their answers. Brokers and `barycenter watch` serve it.

- `page` is what a browser loads: modules of plain JavaScript without a build step. `files` has it by name.
- `overview` makes the picture of the cluster, `timeline` shortens decisions, `bundle_list` lists bundles.
- `load_history` keeps recent loads in memory; `loads_after` is the load after moves.
- `own_page` refuses requests that come from pages of other servers.
- `explained` says why a bundle is where it is and what would make it move, and how even the cluster is.

Nothing here opens a socket or asks a broker: the broker or command that serves the pages reads the cluster.
"""
