"""Make `.venv` ready for a make target: packages as locked, the project itself, a Java for Spark.

Needs only git, make and python3 (3.11 or newer) with its venv module. A second run takes a moment: what is
installed is known by the hash of the lock files.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCKS = ROOT / "requirements"
OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17


def say(text: str) -> None:
    print(f"[set-up] {text}", flush=True)


def fail(text: str) -> None:
    sys.exit(f"[set-up] {text}")


def system_java_version() -> int | None:
    """Return the major version of the Java that JAVA_HOME or the PATH offers, or None."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not program:
        return None
    try:
        shown = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except OSError:
        return None
    found = re.search(r'version "(\d+)', shown)
    return int(found.group(1)) if found else None


def make_venv() -> None:
    if sys.version_info < OLDEST_PYTHON:
        fail(
            f"python3 is {sys.version.split()[0]}; 3.11 or newer is needed: apt-get install python3.11 python3.11-venv"
        )
    if PYTHON.exists():
        return
    say("making .venv")
    made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True, check=False)
    if made.returncode:
        shutil.rmtree(VENV, ignore_errors=True)
        fail(f"python3 cannot make a virtual environment; mend it with: apt-get install python3-venv\n{made.stdout}")


def install(lock: Path, what: str) -> None:
    say(f"installing {what} (the first time takes a minute or two)")
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r"]
    if subprocess.run([*command, str(lock)], check=False).returncode:
        fail(f"pip could not install {lock.relative_to(ROOT)}; is the Python package index reachable?")


def install_project() -> None:
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-e"]
    if subprocess.run([*command, str(ROOT)], check=False).returncode:
        fail("pip could not install the project itself")


def compile_tests() -> None:
    """Have all tests read, and so compiled, once; else each worker of the first `make test` compiles all of them."""
    say("compiling the tests")
    files = sorted(str(file) for file in (ROOT / "tests").rglob("test_*.py"))
    share = os.cpu_count() or 1
    command = [str(PYTHON), "-m", "pytest", "--quiet", "--collect-only", "-p", "no:cacheprovider"]
    silent = subprocess.DEVNULL  # what is wrong with one, `make test` tells
    running = [
        subprocess.Popen([*command, *files[first::share]], cwd=ROOT, stdout=silent, stderr=silent)
        for first in range(share)
    ]
    for process in running:
        process.wait()


def begin_archive_of_classes() -> None:
    """Have the archive of Spark's classes made while lint and types run; tests of Spark wait until it is there."""
    say("making an archive of Spark's classes in the background")
    code = "from support import java_start; java_start.set_environment(); java_start.make_archive()"
    subprocess.Popen(
        [str(PYTHON), "-c", code],
        cwd=ROOT / "tests",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dev", action="store_true", help="also what tests, lint and types need")
    wants_dev = parser.parse_args().dev

    locks = [LOCKS / ("dev.lock" if wants_dev else "runtime.lock")]
    java = system_java_version()
    if java is None or java < OLDEST_JAVA:
        locks.append(LOCKS / "java.lock")
    digest = hashlib.sha256()
    for file in [*locks, ROOT / "pyproject.toml"]:
        digest.update(file.read_bytes())
    stamp = VENV / f".ready-{'dev' if wants_dev else 'runtime'}-{digest.hexdigest()[:16]}"
    if stamp.exists():
        return

    make_venv()
    install(locks[0], "the locked packages")
    if len(locks) > 1:
        found = "no Java found" if java is None else f"Java {java} is older than {OLDEST_JAVA}"
        install(locks[1], f"a Java runtime from the package index ({found})")
    install_project()
    if wants_dev:
        compile_tests()
        begin_archive_of_classes()
    stamp.touch()
    say("ready")


if __name__ == "__main__":
    main()
