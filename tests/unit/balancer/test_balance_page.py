"""The page of a balancer: what it shows, and which answers to a round that waits it takes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from pulsar_barycenter.balancer import page
from pulsar_barycenter.balancer.approval import Proposal, answer_to, propose
from pulsar_barycenter.balancer.judging.moves_seen import SeenMove, Whose
from pulsar_barycenter.balancer.judging.scoring import Score
from pulsar_barycenter.balancer.options import Mode
from pulsar_barycenter.balancer.page import ANSWERERS_FILE, BalancePage, read_token, rendered_page, why_refused
from pulsar_barycenter.balancer.rounds import RoundRecord
from pulsar_barycenter.balancer.state_folder import StateError
from pulsar_barycenter.operations.plan import PlannedMove
from pulsar_barycenter.operations.splitting import PlannedSplit
from pulsar_barycenter.whole_files.appearing import appearing

BUNDLE = "t/n/0x00000000_0x80000000"
MOVE = PlannedMove(bundle=BUNDLE, source="a:1", destination="b:1", sentence="a is <full>")
PROPOSAL = Proposal(at=1, until=1 << 60, moves=(MOVE,), why="one move")
APPROVED = {"round": PROPOSAL.name, "answer": "approve"}
RECORD = RoundRecord(
    at=0,
    mode=Mode.ADVISE,
    brokers=2,
    current=2,
    bundles=4,
    balance="b",
    above_mean=0.1,
    our_above_mean=0.1,
    decided=(MOVE,),
    stays={BUNDLE: "it is <new>"},
    splits=(PlannedSplit(bundle="t/hot/0x0_0x1", broker="a:1", sentence="<hot>"),),
    whole={"t/full/0x0_0x1": "it is <full>"},
    seen=(SeenMove(at=0, bundle=BUNDLE, source="a:1", destination="c:1", whose=Whose.FOREIGN),),
    state="waiting for approval",
    held_up="<nobody>",
    score=Score(),
)


@asynccontextmanager
async def served(folder: Path, *, answers: bool = True) -> AsyncIterator[tuple[TestClient[Any, Any], str]]:
    """Serve the page, with a round that waits; yield a client and the token."""
    propose(folder, PROPOSAL)
    page = BalancePage(folder, read_token(folder) if answers else "", RECORD)
    app = web.Application(client_max_size=1 << 14)
    page.add_to(app)
    async with TestClient(TestServer(app)) as client:
        yield client, page.token


@pytest.mark.parametrize("content", [b"", b"\n", b"short\n", b"\xff" * 40, b"x" * 20 + b"\x1b[2J"], ids=range(5))
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: bytes) -> None:
    """A full disk leaves an empty file; anybody would know such a token."""
    (tmp_path / ANSWERERS_FILE).write_bytes(content)
    with pytest.raises(StateError, match="no token of at least 16 characters; delete the file"):
        read_token(tmp_path)


def test_a_token_that_cannot_be_written_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "appearing", lambda file: appearing(tmp_path / "no folder" / file.name))
    with pytest.raises(OSError, match="No such file"):
        read_token(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "body", "bearer", "status"),
    [
        ("application/x-www-form-urlencoded; charset=none-such", b"round=x", "x", 400),
        ("application/x-www-form-urlencoded; charset=utf-8", b"round=\xff", "x", 400),
        ("application/x-www-form-urlencoded", b"round=%ED%A0%80&token=%ff%fe", "", 401),
        ("application/x-www-form-urlencoded", b"round=x", "\udcff", 401),
        ("application/x-www-form-urlencoded", b"&".join(b"a%d=1" % number for number in range(1_000)), "x", 401),
        ("application/json", b"[" * 10_000, "x", 415),
        ("multipart/form-data; boundary=x", b"--x", "x", 415),
    ],
    ids=["charset", "not UTF-8", "surrogates", "header", "many fields", "too deep", "multipart"],
)
async def test_what_is_no_form_is_refused(tmp_path: Path, kind: str, body: bytes, bearer: str, status: int) -> None:
    async with served(tmp_path) as (client, _token):
        headers = {"Content-Type": kind, "Authorization": f"Bearer {bearer}"}
        host, port = client.server.host, client.server.port
        reader, writer = await asyncio.open_connection(host, port)
        head = "".join(f"{name}: {value}\r\n" for name, value in {**headers, "Content-Length": len(body)}.items())
        writer.write(f"POST /approval HTTP/1.0\r\nHost: {host}:{port}\r\n{head}\r\n".encode(errors="surrogateescape"))
        writer.write(body)
        assert (await reader.readline()).split()[1] == str(status).encode()
        writer.close()
        await writer.wait_closed()
    assert answer_to(tmp_path, PROPOSAL) is None


async def test_the_page_shows_the_round_and_the_form_and_takes_its_answer(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, token):
        answer = await client.get("/")
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        text = await answer.text()
        for said in (
            PROPOSAL.name,
            "a is &lt;full&gt;",
            "it is &lt;new&gt;",
            "&lt;nobody&gt;",
            "c:1 (foreign)",
            "&lt;hot&gt;",
            "it is &lt;full",
        ):
            assert said in text
        assert token not in text
        answer = await client.post("/approval", data={**APPROVED, "token": token, "why": "quiet"})
        assert answer.status == 200
        found = answer_to(tmp_path, PROPOSAL)
        assert found is not None
        assert (found.is_approved, found.why) == (True, "quiet")
        again = await client.post("/approval", data={**APPROVED, "token": token})
        assert (again.status, "answered already" in await again.text()) == (409, True)
        assert "<form" not in await (await client.get("/")).text()


@pytest.mark.parametrize(
    ("headers", "fields", "status"),
    [
        ({}, {}, 401),
        ({"Authorization": "Bearer other"}, {}, 401),
        ({"Authorization": "", "Host": "evil.example"}, {}, 403),
        ({"Authorization": "", "Origin": "https://evil.example"}, {}, 403),
        ({"Authorization": "", "Origin": "null"}, {}, 403),
        ({"Authorization": "", "Sec-Fetch-Site": "cross-site"}, {}, 403),
        ({"Authorization": ""}, {"answer": "yes"}, 400),
        ({"Authorization": ""}, {"force": "1"}, 400),
        ({"Authorization": ""}, {"why": "x" * 1001}, 400),
        ({"Authorization": ""}, {"why": "x" * (1 << 15)}, 413),
        ({"Authorization": ""}, {"round": "other"}, 409),
        ({"Authorization": "", "Content-Type": "text/plain"}, {}, 415),
    ],
)
async def test_a_request_that_may_not_answer_changes_nothing(
    tmp_path: Path, headers: dict[str, str], fields: dict[str, str], status: int
) -> None:
    async with served(tmp_path) as (client, token):
        if headers.get("Authorization") == "":  # with the right token
            headers = {**headers, "Authorization": f"Bearer {token}"}
        data: Any = {**APPROVED, **fields} if "Content-Type" not in headers else "round"
        answer = await client.post("/approval", data=data, headers=headers)
        assert answer.status == status, await answer.text()
        assert answer_to(tmp_path, PROPOSAL) is None


async def test_another_name_may_not_read_the_page_and_other_modes_take_no_answer(tmp_path: Path) -> None:
    async with served(tmp_path, answers=False) as (client, _):
        assert (await client.get("/", headers={"Host": "evil.example:9108"})).status == 403
        assert "<form" not in await (await client.get("/")).text()
        assert (await client.post("/approval", data={**APPROVED, "token": ""})).status == 409
    assert answer_to(tmp_path, PROPOSAL) is None


def test_the_token_is_for_its_user_alone_and_stays(tmp_path: Path) -> None:
    token = read_token(tmp_path)
    assert len(token) >= 43
    assert (tmp_path / ANSWERERS_FILE).stat().st_mode & 0o777 == 0o600
    assert read_token(tmp_path) == token


def test_requests_of_this_machine_are_taken() -> None:
    assert why_refused("127.0.0.1:9108", "http://127.0.0.1:9108", "same-origin") == ""
    assert why_refused("[::1]:9108", None, "none") == ""
    assert "another origin" in why_refused("localhost:1", "http://localhost:2", "")
    assert "'['" in why_refused("[", None, "")


def test_before_the_first_round_the_page_says_so() -> None:
    assert "No round has ended yet" in rendered_page(None, None)
