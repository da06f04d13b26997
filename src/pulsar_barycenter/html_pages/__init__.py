"""Pages that are one HTML file each, with everything in it, and need nothing but a browser: `page` renders one.

`base.html.j2` is what all have around them, `base.css` colours and looks on screens and paper, which the dashboard has,
too; `draw.js` draws pictures over time that zoom together; `reasons` says what of a reason is seen at a glance.
"""
