"""Writes the report of a replay as one self-contained HTML file.

`overview` prepares the data of all runs, `run_detail` that of one run, within the bounds of `thinning`; `page` renders
both. `page.html.j2` has the texts and tables; the scripts draw the pictures, one file for each section of the page.
"""
