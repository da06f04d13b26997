"""Apache Pulsar balanced by its own balancer and by `barycenter balance`, in turns, under the same load."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
