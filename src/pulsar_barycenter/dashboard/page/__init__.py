"""The dashboard as a browser loads it: one page, its style, and modules of JavaScript that need no build step.

`main.js` starts it; each view is a module with its name. `dom.js` makes elements: text from the cluster gets into the
page only as text nodes and attributes. `cluster.js` sends requests to the broker and caches the answers.
"""
