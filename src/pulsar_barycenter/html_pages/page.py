"""Renders a page that loads nothing from other places.

Text from outside enters in two ways, both escaped: through the template, and as JSON that the script puts into text
nodes. The content security policy allows only the page's own script and style, by their hashes.
"""

import base64
import hashlib
from importlib.resources import files
from typing import Any

import jinja2

from pulsar_barycenter import version


def rendered(package: str, json_data: Any, /, *scripts: str, template: str = "page.html.j2", **values: Any) -> str:
    """Return a page as HTML: the template with the style `page.css` and the scripts of a package inside it.

    `package` is the Python package that has the files `template`, `page.css` and `scripts` (by default only `page.js`).
    The template extends the shared `base.html.j2`. `values` are the template's variables. `json_data` is the data for
    the scripts: it is in the page as JSON, in the element with the id `data`.
    """
    own, shared = files(package), files("pulsar_barycenter.html_pages")
    folders = {template: own}
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folders.get(name, shared) / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    sources = [shared / "draw.js", *(own / name for name in scripts or ("page.js",))]
    script = "".join(source.read_text(encoding="utf-8") for source in sources)
    style = "".join(source.read_text(encoding="utf-8") for source in (shared / "base.css", own / "page.css"))
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    )
    return environment.get_template(template).render(
        **values, json_data=json_data, script=script, style=style, policy=policy, version=version()
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
