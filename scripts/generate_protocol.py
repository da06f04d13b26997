"""Write the modules of the protobuf definitions anew: Pulsar's protocol, what BookKeeper and Pulsar store,
and the parts of etcd's and Oxia's API that stores use.

    .venv/bin/python scripts/generate_protocol.py

A unit test generates them into an empty folder and compares.
"""

import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
PROTOCOL = "pulsar_barycenter/protocol"
ETCD = "pulsar_barycenter/metadata/etcd"
OXIA = "pulsar_barycenter/metadata/oxia"
BOOKKEEPER = "pulsar_barycenter/bookkeeper"
PULSAR_RECORDS = "pulsar_barycenter/ledger/pulsar_records"
GENERATED = (
    f"{PROTOCOL}/pulsar_api_pb2.py",
    f"{PROTOCOL}/pulsar_api_pb2.pyi",
    f"{ETCD}/etcd_api_pb2.py",
    f"{ETCD}/etcd_api_pb2.pyi",
    f"{ETCD}/etcd_api_pb2_grpc.py",
    f"{ETCD}/etcd_api_pb2_grpc.pyi",
    f"{OXIA}/oxia_api_pb2.py",
    f"{OXIA}/oxia_api_pb2.pyi",
    f"{OXIA}/oxia_api_pb2_grpc.py",
    f"{OXIA}/oxia_api_pb2_grpc.pyi",
    f"{BOOKKEEPER}/metadata/ledger_formats_pb2.py",
    f"{BOOKKEEPER}/metadata/ledger_formats_pb2.pyi",
    f"{BOOKKEEPER}/wire/bookie_opening_pb2.py",
    f"{BOOKKEEPER}/wire/bookie_opening_pb2.pyi",
    f"{PULSAR_RECORDS}/managed_ledger_formats_pb2.py",
    f"{PULSAR_RECORDS}/managed_ledger_formats_pb2.pyi",
)
"""Relative to the source folder."""


def generate(into: Path) -> None:
    """Write all files below the existing folder `into`, as they lie below the source folder.

    Raises:
        subprocess.CalledProcessError: the compiler refused the definitions; it has said why on stderr.
    """
    (into / PROTOCOL).mkdir(parents=True, exist_ok=True)
    protocol = into / PROTOCOL
    _compile(SOURCE / PROTOCOL, "pulsar_api.proto", f"--python_out={protocol}", f"--mypy_out=quiet:{protocol}")
    for definitions in (
        f"{BOOKKEEPER}/metadata/ledger_formats.proto",
        f"{BOOKKEEPER}/wire/bookie_opening.proto",
        f"{PULSAR_RECORDS}/managed_ledger_formats.proto",
    ):
        _compile(SOURCE, definitions, f"--python_out={into}", f"--mypy_out=quiet:{into}")
    for definitions in (f"{ETCD}/etcd_api.proto", f"{OXIA}/oxia_api.proto"):
        _compile(
            SOURCE,
            definitions,
            f"--python_out={into}",
            f"--mypy_out=quiet:{into}",
            f"--grpc_python_out={into}",
            f"--mypy_grpc_out=quiet:{into}",
        )


def _compile(folder: Path, definitions: str, *outputs: str) -> None:
    tools = Path(sys.executable).parent
    plugins = [f"--plugin={name}={tools / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    command = [sys.executable, "-m", "grpc_tools.protoc", *plugins, f"--proto_path={folder}", *outputs, definitions]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    generate(SOURCE)
