"""The strategy package of docs/strategy-plugins.md in a folder: a module and its metadata, as pip installs them."""

import re
from pathlib import Path
from typing import Final

GUIDE: Final = Path(__file__).parents[2] / "docs" / "strategy-plugins.md"
NAME: Final = "AcmeShedder"


def install(folder: Path, *, module: str = "", entry_points: str = "") -> Path:
    """Write the package into `folder`, to be put on the path of Python; return the folder.

    `module` and `entry_points` replace the texts of the guide.
    """
    text = GUIDE.read_text()
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    offered = re.findall(r'\[project.entry-points."(.*?)"\]\n(\w+) = "(.*?)"', text)
    listed = "".join(f"[{group}]\n{name} = {value}\n" for group, name, value in offered)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "acme_strategies.py").write_text(module or code)
    metadata = folder / "acme_strategies-1.0.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-strategies\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points or listed)
    return folder
