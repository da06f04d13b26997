"""Build the wheel and the source distribution of the last commit: `python scripts/build_distributions.py [FOLDER]`.

Two builds of one commit give the same bytes on any machine: files come from git, and every time in an archive is the
time of the commit. Needs no network: the build runs with the setuptools of this environment.
"""

import gzip
import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True).stdout


def build(target: Path, commit: str = "HEAD") -> list[Path]:
    """Build both distributions of a commit into `target`; return their files."""
    epoch = git("show", "-s", "--format=%ct", commit).decode().strip()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "sources"
        with tarfile.open(fileobj=BytesIO(git("archive", commit))) as archive:
            archive.extractall(sources, filter="data")
        out = Path(folder) / "out"
        subprocess.run(
            [
                sys.executable,
                "-m",
                "uv",
                "build",
                "--quiet",
                "--no-build-isolation",
                "--out-dir",
                str(out),
                str(sources),
            ],
            env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
            check=True,
        )
        return [_copied(file, target, int(epoch)) for file in sorted(out.glob("pulsar_barycenter-*"))]


def _copied(file: Path, target: Path, epoch: int) -> Path:
    content = file.read_bytes()
    result = target / file.name
    result.write_bytes(_with_times(content, epoch) if file.name.endswith(".tar.gz") else content)
    return result


def _with_times(content: bytes, epoch: int) -> bytes:
    """Return a .tar.gz with the same files, sorted, of one time and no owner."""
    plain = BytesIO()
    with tarfile.open(fileobj=BytesIO(content)) as old, tarfile.open(fileobj=plain, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.pax_headers = {}
            member.mode = 0o755 if member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(plain.getvalue(), mtime=epoch)


def main() -> None:
    for file in build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"):
        print(file)


if __name__ == "__main__":
    main()
