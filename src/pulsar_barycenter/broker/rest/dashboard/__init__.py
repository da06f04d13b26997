"""The dashboard, which every broker serves at `/`, and what it asks for besides the routes that tools use.

`page` is what a browser loads (`page_files` serves it): modules of plain JavaScript without a build step.
`leaders_view` is what only the leader can tell them: `overview` makes the picture of a cluster that is drawn,
`timeline` gathers what was decided, `load_history` keeps the loads over time, and `load_answers` adds those of tables.
`explanations` answer where something is, why, what would make it move, and how even the cluster is, as the pure
`explained` finds it. What a click would do is shown first: `drain_preview` and `split_preview` for bundles, with the
`loads_after` it, `settings` for a key of the broker that is asked.

Changes are made by the routes of the admin API; nothing is decided here.
"""
