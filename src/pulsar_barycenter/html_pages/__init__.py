"""Renders HTML pages that are one self-contained file each and need only a browser: `page`.

`base.html.j2` is the common frame. `base.css` has the style for screen and paper, which the dashboard also uses.
`draw.js` draws pictures over time that zoom together. `reasons` shortens the reason of a decision.
"""
