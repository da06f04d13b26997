"""A page at http://127.0.0.1:PORT/ that shows the last round, and the answer to a round that waits, as a form or REST.

Any page in a browser can send requests to a port of this machine. So a request must name a loopback address (a name
that an attacker's server resolves to it is refused), must not come from another origin, and an answer needs the token
in `approval-token` of the state folder, which only its user can read.

    curl -H "Authorization: Bearer $(cat STATE/approval-token)" -d round=NAME -d answer=approve http://127.0.0.1:PORT/approval
"""

import hmac
import os
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib import resources
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from pulsar_barycenter import html_pages
from pulsar_barycenter.balancer.approval import Answer, ApprovalError, Proposal, answer, waiting
from pulsar_barycenter.balancer.judging.scoring import Side
from pulsar_barycenter.balancer.rounds import RoundRecord
from pulsar_barycenter.balancer.state_folder import StateError
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.whole_files.appearing import appearing
from pulsar_barycenter.whole_files.reading import read_regular

ANSWERERS_FILE: Final = "approval-token"
MIN_TOKEN: Final = 16
"""The least number of characters of the token of answers."""
_MAX_TOKEN_BYTES: Final = 4_096
MAX_WHY: Final = 1_000
"""The maximum number of characters of the reason of an answer."""
BY: Final = "the holder of approval-token"
_FIELDS: Final = frozenset({"round", "answer", "why", "token"})
_ANSWERS: Final = {"approve": True, "reject": False}
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_MAX_SHOWN: Final = 100
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def read_token(folder: Path) -> str:
    """Return the secret token that a request must have to approve or reject a round; create the token if the folder has
    none.

    Raises:
        StateError: the file has no token of at least MIN_TOKEN characters.
        OSError: the file cannot be read or written.
    """
    file = folder / ANSWERERS_FILE
    if not file.exists():
        with appearing(file) as unfinished:
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as stream:
                stream.write(secrets.token_urlsafe(32) + "\n")
    token = read_regular(file, _MAX_TOKEN_BYTES).decode("ascii", errors="replace").strip()
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable():
        raise StateError(
            f"{file} has no token of at least {MIN_TOKEN} characters; delete the file and start balance again, which "
            "creates a token"
        )
    return token


def why_refused(host: str, origin: str | None, site: str) -> str:
    """Return why a request with these headers Host, Origin and Sec-Fetch-Site is refused; blank if it is not."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    if name not in _LOOPBACK:
        return f"the header Host is {host[:100]!r}, not an address of this machine: ask http://127.0.0.1:PORT"
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        return "pages of another origin may not send requests: the header Origin is not the address of this request"
    if site.lower() in ("cross-site", "same-site"):
        return f"pages of another site may not send requests: the header Sec-Fetch-Site is {site.lower()}"
    return ""


@dataclass(slots=True)
class BalancePage:
    """The page of the balancer whose state is in `folder`; `record` is its last round. `token` is the secret that an
    answer needs; blank if this mode asks for no answers.
    """

    folder: Path
    token: str = ""
    record: RoundRecord | None = None

    def add_to(self, app: web.Application) -> None:
        """Add two routes to the server: of the page, and of the request that approves or rejects a round."""
        app.router.add_get("/", self._show)
        app.router.add_post("/approval", self._take_answer)

    async def _show(self, request: web.Request) -> web.Response:
        if why := _refusal_of(request):
            return _text(403, why)
        try:
            proposal: Proposal | None = waiting(self.folder, _now_ms())
        except (ApprovalError, StateError):
            proposal = None
        body = rendered_page(self.record, proposal if self.token else None)
        return web.Response(text=body, content_type="text/html", charset="utf-8", headers=_HEADERS)

    async def _take_answer(self, request: web.Request) -> web.Response:
        if why := _refusal_of(request):
            return _text(403, why)
        if not self.token:
            return _text(409, "this mode asks for no approval; start balance with --mode advise")
        if request.content_type != "application/x-www-form-urlencoded":
            return _text(415, "send round, answer and why as application/x-www-form-urlencoded")
        try:
            given = await request.post()
        except (ValueError, LookupError) as error:  # no such charset, not text in it, too many fields
            return _text(400, f"the form cannot be read: {error}")
        fields = {name: value for name, value in given.items() if isinstance(value, str)}
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(_bytes(fields.get("token") or bearer), _bytes(self.token)):
            return _text(401, f"the token is not that in {ANSWERERS_FILE} of the state folder")
        if others := given.keys() - _FIELDS or [name for name in given if len(given.getall(name)) > 1]:
            return _text(400, f"the field {min(others)!r} is not known, or occurs twice")
        return self._answer(fields.get("round", ""), fields.get("answer", ""), fields.get("why", ""))

    def _answer(self, name: str, word: str, why: str) -> web.Response:
        if word not in _ANSWERS:
            return _text(400, f"answer is {word[:100]!r}: give approve or reject")
        if len(why) > MAX_WHY:
            return _text(400, f"why has {len(why):,} characters; shorten it to {MAX_WHY:,} at most")
        now_ms = _now_ms()
        try:
            proposal = waiting(self.folder, now_ms)
            if name != proposal.name:
                return _text(409, f"round {proposal.name} waits, not {name[:100]!r}; look at it, and answer it by name")
            answer(self.folder, Answer(proposal=name, is_approved=_ANSWERS[word], by=BY, at=now_ms, why=why))
        except ApprovalError as error:
            return _text(409, str(error))
        except (StateError, OSError) as error:
            return _text(500, str(error))
        return _text(
            200, f"round {name}: {'approved; the balancer carries it out now' if _ANSWERS[word] else 'rejected'}"
        )


def rendered_page(record: RoundRecord | None, proposal: Proposal | None) -> str:
    """Return the page as HTML. It shows `record`, the last round (None: no round has ended), and above it `proposal`,
    the round that waits for a person's answer (None: there is none).
    """
    css = resources.files(html_pages).joinpath("base.css").read_text(encoding="utf-8")
    parts = ["<p>No round has ended yet.</p>"] if record is None else list(_round_parts(record))
    if proposal is not None:
        parts = [*_proposal_parts(proposal), *parts]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>barycenter balance</title>'
        f"<style>{css}</style></head><body><main><h1>barycenter balance</h1>{''.join(parts)}</main></body></html>"
    )


def _round_parts(record: RoundRecord) -> Iterable[str]:
    at = datetime.fromtimestamp(record.at / 1000, UTC)
    yield f"<h2>Round of {at:%Y-%m-%d %H:%M:%S} UTC: {escape(record.state)}</h2>"
    sizes = f"{count_of(record.brokers, 'broker')}, {count_of(record.bundles, 'bundle')}"
    yield f"<p>Mode {escape(record.mode)}; {sizes}. {escape(record.balance)}</p>"
    if record.held_up:
        yield f"<p><b>Nothing moves:</b> {escape(record.held_up)}</p>"
    if record.why:
        yield f"<p>{escape(record.why)}</p>"
    yield from _list("Decided", (f"{move.bundle} to {move.destination}: {move.sentence}" for move in record.decided))
    yield from _list("Stay", (f"{bundle}: {why}" for bundle, why in record.stays.items()))
    yield from _list("Split", (f"{split.bundle}: {split.sentence}" for split in record.splits))
    yield from _list("Too large, stay whole", (f"{bundle}: {why}" for bundle, why in record.whole.items()))
    yield from _list("Seen", (f"{move.bundle} to {move.destination} ({move.whose})" for move in record.seen))
    yield from _list("No report", (f"{broker}: {why}" for broker, why in record.failed.items()))
    yield f"<p>So far: the cluster {_side(record.score.cluster)}; ours {_side(record.score.ours)}.</p>"


def _side(side: Side) -> str:
    return f"{count_of(side.moves, 'move')}, {100 * side.mean:.1f} points above the mean"


def _proposal_parts(proposal: Proposal) -> Iterable[str]:
    yield f"<h2>Round {escape(proposal.name)} waits for approval</h2><p>{escape(proposal.why)}</p>"
    yield from _list(
        "Moves", (f"{move.bundle} from {move.source} to {move.destination}: {move.sentence}" for move in proposal.moves)
    )
    yield (
        f'<form method="post" action="/approval"><input type="hidden" name="round" value="{escape(proposal.name)}">'
        f'<p><label>Token (in {ANSWERERS_FILE} of the state folder) <input type="password" name="token" required '
        'autocomplete="off"></label></p>'
        f'<p><label>Reason <input name="why" maxlength="{MAX_WHY}"></label></p>'
        '<p><button name="answer" value="approve">Approve</button> '
        '<button name="answer" value="reject">Reject</button></p></form>'
    )


def _list(title: str, lines: Iterable[str]) -> Iterable[str]:
    found = list(lines)
    if not found:
        return
    more = len(found) - _MAX_SHOWN
    shown = [*found[:_MAX_SHOWN], *([f"… and {more:,} more"] if more > 0 else [])]
    yield f"<h3>{title}</h3><ul>{''.join(f'<li>{escape(line)}</li>' for line in shown)}</ul>"


def _refusal_of(request: web.Request) -> str:
    headers = request.headers
    if len(headers.getall("Host", [])) > 1:
        return "there are several headers Host"
    return why_refused(headers.get("Host", ""), headers.get("Origin"), headers.get("Sec-Fetch-Site", ""))


def _bytes(text: str) -> bytes:
    """Return a token as bytes, for comparison. Works also for a header whose bytes were not UTF-8, which has characters
    that UTF-8 cannot encode.
    """
    return text.encode(errors="backslashreplace")


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n", headers=_HEADERS)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
