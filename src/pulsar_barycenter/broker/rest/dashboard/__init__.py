"""The dashboard as a broker serves it at `/`, and the routes that only its pages use.

- `page_files` serves the files of `dashboard.files`.
- `leaders_view` answers from data that only the leader has; `load_answers` adds older loads from tables.
- `explanations` answers where a topic, bundle or namespace is, why, what would make it move, and how even the cluster
  is.
- `drain_preview`, `split_preview` and `settings` show the effect of a change before it is made.

The pages and the pure part of the answers are in the package `dashboard`, which `barycenter watch` also uses. Changes
are made by the routes of the admin API; this package decides nothing.
"""
