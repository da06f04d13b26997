"""The report of a replay, one HTML file with everything in it.

`thinning` has the bounds that keep it small, `run_detail` what is shown of one run, `overview` what of all, and `page`
renders both. `page.html.j2` has texts and tables; the scripts draw the rest, a file for each section of the page.
"""
