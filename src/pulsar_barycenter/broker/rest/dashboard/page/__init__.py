"""The dashboard as a browser loads it: one page, its style, and modules of JavaScript that need no build step.

`main.js` begins; each view is a module of its name. `dom.js` makes elements: text of a cluster reaches a page as text
nodes and attributes only. `cluster.js` asks the broker, and keeps what it answered.
"""
