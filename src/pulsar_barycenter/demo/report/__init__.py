"""The report of a demo, one HTML file with everything in it: `data` picks what is shown of a record, `page` renders it.

`page.html.j2` has the texts and tables, `page.js` draws the pictures; frame, looks and drawing are those of `pages`.
"""
