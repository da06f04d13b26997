"""The dashboard, which every broker serves at `/`, and what it asks for besides the routes that tools use.

`page` is what a browser loads (`page_files` serves it): modules of plain JavaScript without a build step. `overview`
makes the picture of a cluster that is drawn, `timeline` gathers what was decided.
"""
