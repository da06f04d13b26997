"""The report of a demo as one self-contained HTML file: `data` prepares the values of a record, `page` renders them.

`comparison` renders two runs side by side. `page.html.j2` and `comparison.html.j2` have the texts and tables, `page.js`
and `comparison.js` lay out the pictures that `run.js` draws of a run. `html_pages` has the frame, the style and
the drawing code.
"""
