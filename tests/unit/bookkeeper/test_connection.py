"""One connection to a bookie: one request of a key at a time, one answer to each request, whatever the bookie sends."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from pulsar_barycenter.bookkeeper.client.connection import AddRequest, BookieConnection, Request
from pulsar_barycenter.bookkeeper.wire.packets import (
    Code,
    Operation,
    encode_fencing_read,
    encode_read,
)

KEY = (Operation.READ, 7, 3)


class Bookie(asyncio.Protocol):
    """The other end; what it receives is kept."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.arrived = asyncio.Event()
        self.transports: list[asyncio.Transport] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transports.append(transport)

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.arrived.set()

    async def frames(self, expected: bytes) -> None:
        """Return once exactly these bytes have come."""
        while bytes(self.received) != expected:
            assert expected.startswith(self.received)
            self.arrived.clear()
            await self.arrived.wait()

    def answer_adds(self, *entries: int, code: Code = Code.OK, ledger: int = 7) -> None:
        """Answer adds, in one packet of the network."""
        heads = (b"\x02\x01\0\0" + code.to_bytes(4, "big") + ledger.to_bytes(8, "big") for _ in entries)
        answers = (head + entry.to_bytes(8, "big") for head, entry in zip(heads, entries, strict=True))
        self.transports[0].write(b"".join(len(answer).to_bytes(4, "big") + answer for answer in answers))

    def answer(self, entry: int, body: bytes) -> None:
        head = b"\x02\x02\0\0" + b"\0\0\0\0" + (7).to_bytes(8, "big") + entry.to_bytes(8, "big")
        self.transports[0].write((len(head) + len(body)).to_bytes(4, "big") + head + body)


def connected(test: Callable[[Bookie, BookieConnection], Awaitable[None]], timeout_s: float = 30.0) -> None:
    async def play() -> None:
        loop = asyncio.get_running_loop()
        bookie = Bookie()
        server = await loop.create_server(lambda: bookie, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        def made() -> BookieConnection:
            return BookieConnection(
                "b", timeout_s=timeout_s, max_frame_bytes=1000, max_unsent_bytes=1 << 20, on_lost=lambda: None
            )

        _, connection = await loop.create_connection(made, "127.0.0.1", port)
        await test(bookie, connection)
        connection.abort()
        for transport in bookie.transports:
            transport.abort()
        server.close()
        await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(play(), 20))


class Asker:
    """Sends requests, and keeps the answers in their order."""

    def __init__(self, connection: BookieConnection) -> None:
        self._connection = connection
        self.answers: list[tuple[str, Code, bytes]] = []
        self.added: list[tuple[str, int, Code]] = []
        self._came = asyncio.Event()

    def send(self, name: str, frame: bytes, key: tuple[Operation, int, int] = KEY) -> None:
        def answered(code: Code, body: bytes) -> None:
            self.answers.append((name, code, body))
            self._came.set()

        self._connection.send(Request(key, frame, answered))

    def send_adds(self, name: str, frame: bytes, *entries: int, ledger: int = 7) -> None:
        def answered(some: Sequence[int], code: Code) -> None:
            self.added += [(name, entry, code) for entry in some]
            self._came.set()

        self._connection.send(AddRequest(ledger, entries, [frame], answered))

    async def until(self, count: int) -> None:
        """Return once so many requests are answered."""
        while len(self.answers) + len(self.added) < count:
            self._came.clear()
            await self._came.wait()


PLAIN = encode_read(7, 3)
FENCING = encode_fencing_read(7, 3, bytes(20))


def test_a_plain_and_a_fencing_read_of_one_entry_are_never_under_way_together():
    """Their answers cannot be told apart, and the answer to the plain one says nothing of the fence."""

    async def test(bookie: Bookie, connection: BookieConnection) -> None:
        asker = Asker(connection)
        asker.send("plain", PLAIN)
        asker.send("fencing", FENCING)
        await bookie.frames(PLAIN)
        assert asker.answers == []
        bookie.answer(3, b"one")
        await bookie.frames(PLAIN + FENCING)
        assert asker.answers == [("plain", Code.OK, b"one")]
        bookie.answer(3, b"two")
        await asker.until(2)
        assert asker.answers[1] == ("fencing", Code.OK, b"two")

    connected(test)


def test_requests_of_other_keys_go_out_together_and_are_answered_in_any_order():
    async def test(bookie: Bookie, connection: BookieConnection) -> None:
        asker = Asker(connection)
        asker.send("three", PLAIN)
        asker.send("four", encode_read(7, 4), (Operation.READ, 7, 4))
        await bookie.frames(PLAIN + encode_read(7, 4))
        bookie.answer(4, b"4")
        bookie.answer(9, b"nobody asked")
        bookie.answer(3, b"3")
        await asker.until(2)
        assert [name for name, _, _ in asker.answers] == ["four", "three"]

    connected(test)


def test_each_entry_of_a_run_is_answered_once_by_its_own_answer():
    async def test(bookie: Bookie, connection: BookieConnection) -> None:
        asker = Asker(connection)
        asker.send_adds("first", b"012", 0, 1, 2)
        asker.send_adds("second", b"34", 3, 4)
        asker.send_adds("other", b"0", 0, ledger=8)
        await bookie.frames(b"012340")
        bookie.answer_adds(2, 3, 9, 0)  # nobody asked for 9
        bookie.answer_adds(0, ledger=8)
        bookie.answer_adds(0, 4, code=Code.FENCED)  # a second answer to 0 is nobody's
        await asker.until(5)
        assert sorted(asker.added) == [
            *(("first", 0, Code.OK), ("first", 2, Code.OK)),
            ("other", 0, Code.OK),
            *(("second", 3, Code.OK), ("second", 4, Code.FENCED)),
        ]
        connection.abort()
        await asker.until(6)
        assert asker.added[-1] == ("first", 1, Code.NO_ANSWER)

    connected(test)


def test_an_add_of_an_entry_that_is_under_way_waits_and_later_ones_follow_it():
    """The answer to one add of an entry must not be taken for that to another one."""

    async def test(bookie: Bookie, connection: BookieConnection) -> None:
        asker = Asker(connection)
        asker.send_adds("first", b"01", 0, 1)
        asker.send_adds("again", b"12", 1, 2)
        asker.send_adds("later", b"3", 3)
        await bookie.frames(b"01")
        bookie.answer_adds(0)
        await asker.until(1)
        assert bytes(bookie.received) == b"01"
        bookie.answer_adds(1, code=Code.READ_ONLY)
        await bookie.frames(b"01123")
        bookie.answer_adds(1, 2, 3)
        await asker.until(5)
        assert asker.added == [
            *(("first", 0, Code.OK), ("first", 1, Code.READ_ONLY)),
            *(("again", 1, Code.OK), ("again", 2, Code.OK), ("later", 3, Code.OK)),
        ]

    connected(test)


@pytest.mark.parametrize("is_silent", [False, True])
def test_adds_without_an_answer_are_answered_once_when_the_connection_ends(is_silent):
    async def test(bookie: Bookie, connection: BookieConnection) -> None:
        asker = Asker(connection)
        asker.send_adds("first", b"01", 0, 1)
        asker.send_adds("again", b"1", 1)
        await bookie.frames(b"01")
        if not is_silent:
            bookie.transports[0].abort()
        await asker.until(3)
        asker.send_adds("late", b"2", 2)
        assert len(asker.added) == 3  # never within the call
        await asker.until(4)
        requests = [("first", 0), ("first", 1), ("again", 1), ("late", 2)]
        assert asker.added == [(*request, Code.NO_ANSWER) for request in requests]
        assert connection.is_lost

    connected(test, timeout_s=0.1 if is_silent else 30.0)


@pytest.mark.parametrize("sent", [b"\xff\xff\xff\xff", b"\0\0\0\x04\x03\x02\0\0", b""])
def test_bytes_that_are_no_answer_end_the_connection_and_all_requests(sent):
    async def test(bookie: Bookie, connection: BookieConnection) -> None:
        asker = Asker(connection)
        for name in ("first", "second"):
            asker.send(name, PLAIN)
        await bookie.frames(PLAIN)
        if sent:
            bookie.transports[0].write(sent)
        else:
            bookie.transports[0].abort()
        await asker.until(2)
        asker.send("late", PLAIN)
        assert len(asker.answers) == 2  # never within the call
        await asker.until(3)
        assert asker.answers == [(name, Code.NO_ANSWER, b"") for name in ("first", "second", "late")]
        assert connection.is_lost

    connected(test)


def test_a_request_without_an_answer_in_time_ends_the_connection():
    async def test(bookie: Bookie, connection: BookieConnection) -> None:
        asker = Asker(connection)
        asker.send("silent", PLAIN)
        await asker.until(1)
        assert asker.answers == [("silent", Code.NO_ANSWER, b"")]
        assert connection.is_lost

    connected(test, timeout_s=0.1)


def test_a_bookie_that_does_not_read_costs_its_connection():
    async def test(bookie: Bookie, connection: BookieConnection) -> None:
        asker = Asker(connection)
        asker.send("first", PLAIN)
        await bookie.frames(PLAIN)
        bookie.transports[0].pause_reading()
        count = 1
        while not connection.is_lost:
            asker.send("large", bytes(1 << 19), (Operation.READ, 8, count))
            count += 1
            await asyncio.sleep(0)
        assert count < 100
        await asker.until(count)
        assert {code for _, code, _ in asker.answers} == {Code.NO_ANSWER}

    connected(test)
