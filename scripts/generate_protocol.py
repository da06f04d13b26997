"""Write `pulsar_api_pb2.py` and `pulsar_api_pb2.pyi` anew from `pulsar_api.proto`.

    .venv/bin/python scripts/generate_protocol.py

A unit test generates them into an empty folder and compares.
"""

import subprocess
import sys
from pathlib import Path

PROTOCOL_ROOM = Path(__file__).resolve().parent.parent / "src" / "barycenter" / "protocol"
GENERATED = ("pulsar_api_pb2.py", "pulsar_api_pb2.pyi")


def generate(into: Path) -> None:
    """Write both files into the existing folder `into`.

    Raises:
        subprocess.CalledProcessError: the compiler refused the definitions; it has said why on stderr.
    """
    plugin = Path(sys.executable).parent / "protoc-gen-mypy"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"--plugin=protoc-gen-mypy={plugin}",
            f"--proto_path={PROTOCOL_ROOM}",
            f"--python_out={into}",
            f"--mypy_out=quiet:{into}",
            "pulsar_api.proto",
        ],
        check=True,
    )


if __name__ == "__main__":
    generate(PROTOCOL_ROOM)
