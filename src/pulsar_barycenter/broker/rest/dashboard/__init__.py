"""The dashboard, which every broker serves at `/`, and the routes that only its pages use.

- `page` is what a browser loads: modules of plain JavaScript without a build step. `page_files` serves it.
- `leaders_view` answers from data that only the leader has. `overview` makes the picture of the cluster, `timeline`
  shortens decisions, `load_history` keeps recent loads in memory, and `load_answers` adds older ones from tables.
- `explanations` answers where a topic, bundle or namespace is, why, what would make it move, and how even the cluster
  is. `explained` is the pure part of it.
- `drain_preview`, `split_preview` and `settings` show the effect of a change before it is made; `loads_after` is the
  load after moves.

Changes are made by the routes of the admin API; this package decides nothing.
"""
