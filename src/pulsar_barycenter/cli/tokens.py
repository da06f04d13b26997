"""`barycenter tokens`: creates keys, and creates, shows and checks tokens, with the options of `bin/pulsar tokens`."""

import base64
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.groups import CommandGroup
from pulsar_barycenter.credentials.bounds import MAX_ROLE
from pulsar_barycenter.credentials.errors import CredentialsError
from pulsar_barycenter.credentials.key_material import read_file
from pulsar_barycenter.credentials.token_keys import (
    PUBLIC_ALGORITHMS,
    SECRET_ALGORITHMS,
    SigningKey,
    VerifyingKey,
    new_key_pair,
    private_key,
    public_key,
    secret_key,
    signing_secret_key,
)
from pulsar_barycenter.credentials.tokens import Refused, TokenRules, check_token, create_token, unverified
from pulsar_barycenter.terminal.errors import in_words

_TOKEN_VARIABLE: Final = "TOKEN"  # noqa: S105  # the name of a variable
_SPAN: Final = re.compile(r"(\d{1,9})(s|m|h|d|w|y)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}

_PUBLIC_ALGORITHM = click.option(
    "-a",
    "--signature-algorithm",
    "algorithm",
    type=click.Choice(PUBLIC_ALGORITHMS),
    default="RS256",
    show_default=True,
    help="The signature algorithm of the key pair.",
)
_SECRET_KEY = click.option("-sk", "--secret-key", default="", metavar="KEY", help="A path, file:/// or data: URL.")
_OUTPUT = click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this new file, with mode 0600."
)
_GIVEN = (
    click.argument("token", default=""),
    click.option("-i", "--stdin", is_flag=True, help="Read the token from standard input."),
    click.option("-f", "--token-file", type=click.Path(path_type=Path), help="Read the token from a file."),
)


@contextmanager
def _key_errors_end() -> Iterator[None]:
    """While the block runs, end the program with a message if a key or a token is not valid."""
    try:
        yield
    except CredentialsError as error:
        fail(str(error))


def _takes_token(command: Any) -> Any:
    for option in reversed(_GIVEN):
        command = option(command)
    return command


@click.group(name="tokens", cls=CommandGroup)
def command() -> None:
    """Create keys and tokens for the authentication of clients, and show and check tokens.

    Options and files are those of Pulsar's `bin/pulsar tokens`.
    """


@command.command(name="create-secret-key")
@click.option(
    "-a",
    "--signature-algorithm",
    "algorithm",
    type=click.Choice(list(SECRET_ALGORITHMS)),
    default="HS256",
    show_default=True,
    help="The signature algorithm; it determines the length of the key.",
)
@click.option("-b", "--base64", "encoded", is_flag=True, help="Write it in Base64, as for a data:;base64, URL.")
@_OUTPUT
def create_secret_key(algorithm: str, encoded: bool, output: Path | None) -> None:
    """Create a secret key, which signs and verifies tokens. Keep it secret: its owner can be any role."""
    key = secrets.token_bytes(SECRET_ALGORITHMS[algorithm])
    data = base64.b64encode(key) if encoded else key
    _give_out(data, output)


@command.command(name="create-key-pair")
@_PUBLIC_ALGORITHM
@click.option("--output-private-key", "private_file", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--output-public-key", "public_file", required=True, type=click.Path(dir_okay=False, path_type=Path))
def create_key_pair(algorithm: str, private_file: Path, public_file: Path) -> None:
    """Create a private key, which signs tokens, and its public key, with which brokers verify them; in new files."""
    private, public = new_key_pair(algorithm)
    _write_new(private_file, private, private=True)
    _write_new(public_file, public, private=False)


@command.command(name="create")
@click.option("-s", "--subject", required=True, help="The role of the token's owner.")
@click.option(
    "-e", "--expiry-time", "life", default="", metavar="SPAN", help="Validity: 1h, 3d, 10y.  [default: unlimited]"
)
@_PUBLIC_ALGORITHM
@_SECRET_KEY
@click.option(
    "-pk", "--private-key", default="", metavar="KEY", help="The key of a pair: a path, file:/// or data: URL."
)
@click.option("-hs", "--headers", multiple=True, metavar="NAME=VALUE", help="An additional header; may be repeated.")
@_OUTPUT
def create(
    subject: str,
    life: str,
    algorithm: str,
    secret_key: str,
    private_key: str,
    headers: tuple[str, ...],
    output: Path | None,
) -> None:
    """Create a token, signed with --secret-key or --private-key, and print it.

    A file of --output is readable only by its owner (mode 0600).
    """
    if not (subject.isprintable() and 0 < len(subject) <= MAX_ROLE):
        raise click.BadParameter(f"give a role of 1 to {MAX_ROLE} printable characters", param_hint="--subject")
    pairs = [header.partition("=") for header in headers]
    if not all(name and sign for name, sign, _ in pairs):
        raise click.BadParameter("write NAME=VALUE", param_hint="--headers")
    expires_at_s = round(time.time() + _span_s(life)) if life else None
    with _key_errors_end():
        key = _signing_key(secret_key, private_key, algorithm)
    token = create_token(key, subject, expires_at_s=expires_at_s, headers={name: text for name, _, text in pairs})
    _give_out(f"{token}\n".encode(), output)


@command.command(name="show")
@_takes_token
def show(token: str, stdin: bool, token_file: Path | None) -> None:
    """Print the content of a token without verifying its signature. The variable TOKEN may also have the token."""
    with _key_errors_end():
        found = unverified(_given(token, stdin, token_file))
        if isinstance(found, Refused):
            raise CredentialsError(found.reason)
    header, claims = found
    click.echo(_as_json(header))
    click.echo("---")
    click.echo(_as_json(claims))


@command.command(name="validate")
@_takes_token
@_PUBLIC_ALGORITHM
@_SECRET_KEY
@click.option(
    "-pk", "--public-key", default="", metavar="KEY", help="The key of a pair: a path, file:/// or data: URL."
)
def validate(
    token: str, stdin: bool, token_file: Path | None, algorithm: str, secret_key: str, public_key: str
) -> None:
    """Verify a token with a key as brokers do; print its content; if it is not valid, print why and end with 1."""
    with _key_errors_end():
        key = _verifying_key(secret_key, public_key, algorithm)
        found = check_token(_given(token, stdin, token_file), TokenRules(key), time.time())
        if isinstance(found, Refused):
            raise CredentialsError(found.reason)
    click.echo(_as_json(found.claims))


def _signing_key(secret: str, private: str, algorithm: str) -> SigningKey:
    _require_one(secret, "--secret-key", private, "--private-key")
    return signing_secret_key(secret, "--secret-key") if secret else private_key(private, algorithm, "--private-key")


def _verifying_key(secret: str, public: str, algorithm: str) -> VerifyingKey:
    _require_one(secret, "--secret-key", public, "--public-key")
    return secret_key(secret, "--secret-key") if secret else public_key(public, algorithm, "--public-key")


def _require_one(value: str, name: str, other: str, other_name: str) -> None:
    if bool(value) == bool(other):
        raise click.UsageError(f"Give either {name} or {other_name}.")


def _given(token: str, stdin: bool, file: Path | None) -> str:
    if token:
        return token.strip()
    if stdin:
        return sys.stdin.read(1 << 20).strip()
    if file is not None:
        return read_file(file, "--token-file").decode(errors="replace").strip()
    if os.environ.get(_TOKEN_VARIABLE):
        return os.environ[_TOKEN_VARIABLE].strip()
    raise click.UsageError("Give a token, --stdin, --token-file, or the variable TOKEN.")


def _span_s(text: str) -> int:
    found = _SPAN.fullmatch(text.strip())
    if found is None or int(found[1]) * _SECONDS[found[2]] > 10**10:
        raise click.BadParameter(f"{text!r}: give a span such as 1h, 3d or 10y", param_hint="--expiry-time")
    return int(found[1]) * _SECONDS[found[2]]


def _give_out(secret: bytes, output: Path | None) -> None:
    """Write a secret (a key or a token) to a new file, or to standard output if `output` is None. In the second case
    print a warning if other users can read standard output.
    """
    if output is not None:
        _write_new(output, secret, private=True)
        return
    sys.stdout.buffer.write(secret)
    sys.stdout.buffer.flush()
    with suppress(OSError, ValueError):  # standard output is not a file
        mode = os.fstat(sys.stdout.fileno()).st_mode
        if stat.S_ISREG(mode) and mode & 0o077:
            click.echo(
                "barycenter: the key or token was written to standard output, a file to which other users have"
                f" access (mode {stat.S_IMODE(mode):04o}). Set the mode with chmod 600, or use --output FILE",
                err=True,
            )


def _write_new(file: Path, data: bytes, *, private: bool) -> None:
    """Write `data` to a new file; fail if the file exists, because all tokens that a key signed become useless if the
    key is overwritten.

    A private file is readable only by its owner, whatever the umask is.
    """
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644), "wb") as opened:
            opened.write(data)
    except FileExistsError:
        fail(
            f"{file} exists already and was not overwritten; give another file, or delete this one if it is not needed"
        )
    except OSError as error:
        fail(in_words(error))


def _as_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
