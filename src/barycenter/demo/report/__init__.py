"""The report of a demo, one HTML file with everything in it: `data` picks what is shown of a record, `page` renders it.

`page.html.j2` has the texts and tables, `page.css` the looks on screens and paper, and `page.js` draws the pictures.
"""
