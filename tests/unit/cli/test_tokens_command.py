"""`barycenter tokens`: keys and tokens as Pulsar's own tool makes them, and messages for invalid requests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pulsar_barycenter.cli.main import main
from support.proofs import SECRET_URL, token


def run(*words: object, **environment: str) -> Result:
    return CliRunner(env={"TOKEN": "", **environment}).invoke(main, ["tokens", *map(str, words)])


def test_a_secret_key_signs_and_validates(tmp_path: Path) -> None:
    key = tmp_path / "secret.key"
    assert run("create-secret-key", "--output", key).exit_code == 0
    assert len(key.read_bytes()) == 32
    assert os.stat(key).st_mode & 0o777 == 0o600
    made = run("create", "--secret-key", f"file://{key}", "--subject", "alice", "--expiry-time", "1h")
    told = json.loads(run("validate", "-sk", key, made.stdout.strip()).stdout)
    assert told["sub"] == "alice"
    assert told["exp"] > 0


def test_a_key_pair_signs_and_validates(tmp_path: Path) -> None:
    private, public = tmp_path / "private.key", tmp_path / "public.key"
    pair = ("--output-private-key", private, "--output-public-key", public, "-a", "ES256")
    assert run("create-key-pair", *pair).exit_code == 0
    made = run("create", "-pk", private, "-a", "ES256", "-s", "alice", "-hs", "kid=one")
    assert json.loads(run("validate", "-pk", public, "-a", "ES256", TOKEN=made.stdout).stdout) == {"sub": "alice"}
    header, claims = run("show", made.stdout.strip()).stdout.split("---")
    assert json.loads(header)["kid"] == "one"
    assert json.loads(claims) == {"sub": "alice"}


def test_a_key_in_base64_is_one_that_a_configuration_takes() -> None:
    key = run("create-secret-key", "--base64", "-a", "HS512").stdout
    assert run("create", "--secret-key", f"data:;base64,{key}", "--subject", "a").exit_code == 0


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    key = tmp_path / "secret.key"
    key.write_bytes(b"precious")
    result = run("create-secret-key", "-o", key)
    assert (result.exit_code, "exists already and was not overwritten" in result.stderr) == (1, True)
    assert key.read_bytes() == b"precious"


def test_a_file_of_a_token_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "alice.token"
    made = run("create", "-sk", SECRET_URL, "-s", "alice", "--output", file)
    assert (made.exit_code, made.stdout) == (0, "")
    assert os.stat(file).st_mode & 0o777 == 0o600
    assert json.loads(run("validate", "-sk", SECRET_URL, "-f", file).stdout) == {"sub": "alice"}
    again = run("create", "-sk", SECRET_URL, "-s", "bob", "--output", file)
    assert (again.exit_code, "exists already and was not overwritten" in again.stderr) == (1, True)


@pytest.mark.parametrize(("mode", "warns"), [(0o644, True), (0o640, True), (0o600, False)])
@pytest.mark.parametrize("words", [("create", "-sk", SECRET_URL, "-s", "alice"), ("create-secret-key",)])
def test_a_secret_that_is_sent_into_a_file_for_all_is_followed_by_a_warning(
    tmp_path: Path, words: tuple[str, ...], mode: int, warns: bool
) -> None:
    file = tmp_path / "out"
    with open(os.open(file, os.O_WRONLY | os.O_CREAT, mode), "wb") as out:
        os.fchmod(out.fileno(), mode)
        done = subprocess.run(
            [sys.executable, "-m", "pulsar_barycenter", "tokens", *words],
            stdout=out,
            stderr=subprocess.PIPE,
            check=True,
        )
    assert file.read_bytes()
    assert (f"mode {mode:04o}" in done.stderr.decode()) is warns


def test_a_token_is_taken_from_where_pulsars_tool_takes_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{token('alice')}\n")
    for words, typed in ((["-f", tmp_path / "token"], ""), (["--stdin"], token("alice"))):
        words = ["tokens", "validate", "--secret-key", SECRET_URL, *map(str, words)]
        assert json.loads(CliRunner().invoke(main, words, input=typed).stdout) == {"sub": "alice"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["validate", "-sk", SECRET_URL, token("a", expires_at_s=1)], 1, "the token expired"),
        (["validate", "-sk", "data:,another secret key of 32 bytes or more", token("a")], 1, "not signed by the key"),
        (["validate", "-sk", "/nowhere", token("a")], 1, "--secret-key: there is no file /nowhere"),
        (["validate", token("a")], 2, "Give either --secret-key or --public-key"),
        (["validate", "-sk", SECRET_URL], 2, "Give a token"),
        (["show", "sesame"], 1, "not a JSON Web Token"),
        (["create", "-s", "a"], 2, "Give either --secret-key or --private-key"),
        (["create", "-s", "", "-sk", SECRET_URL], 2, "give a role of 1 to"),
        (["create", "-s", "a", "-sk", SECRET_URL, "-e", "soon"], 2, ": give a span such as 1h"),
        (["create", "-s", "a", "-sk", SECRET_URL, "-hs", "kid"], 2, "write NAME=VALUE"),
        (["create", "-s", "a", "-pk", SECRET_URL], 1, "--private-key: the given data is not a private key"),
        (["create-key-pair", "--output-private-key", "/nowhere/k", "--output-public-key", "k"], 1, "No such file"),
        (["show", "-f", "/nowhere"], 1, "cannot read /nowhere"),
    ],
)
def test_what_cannot_be_done_is_said(words: list[str], code: int, said: str) -> None:
    result = run(*words)
    assert result.exit_code == code, result.output
    assert said in result.stderr
