"""A relay on loopback between an HTTP client and one server, which records the status of each answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import urlsplit

_OF_ONE_CONNECTION: Final = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "expect"}


class HttpRecord:
    """The statuses of the answers since the last call of `taken`."""

    def __init__(self, url: str) -> None:
        self.url = url
        """Where a client asks instead of at the server."""
        self._changed = threading.Condition()
        self._statuses: list[int] = []
        self._unanswered = 0

    @contextmanager
    def one_request(self) -> Iterator[list[int]]:
        """Count a request as unanswered meanwhile. The caller puts the status of its answer into the list."""
        with self._changed:
            self._unanswered += 1
        answered: list[int] = []
        try:
            yield answered
        finally:
            with self._changed:
                self._unanswered -= 1
                self._statuses += answered
                self._changed.notify_all()

    def taken(self, *, within_s: float = 0.0) -> list[int]:
        """Return the statuses in the order of the answers, and forget them.

        Wait for at most `within_s` until there is an answer, and none is missing: some verbs of the tool return before
        they have one.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._statuses and not self._unanswered, within_s)
            found, self._statuses = self._statuses, []
            return found


@contextmanager
def recorded(target: str, *, timeout_s: float = 60) -> Iterator[HttpRecord]:
    """Relay requests to the server at the URL `target`; an answer that does not come in time is a 504."""
    place = urlsplit(target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def relay(self) -> None:
            with record.one_request() as answered:
                status, headers, body = self._answer(self._body())
                answered.append(status)
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in _OF_ONE_CONNECTION:
                    self.send_header(name, value)
            if status not in (204, 304):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay  # noqa: N815 (the names that the base class looks for)

        def _answer(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = HTTPConnection(place.hostname or "", place.port, timeout=timeout_s)
            try:
                headers = {
                    name: value for name, value in self.headers.items() if name.lower() not in _OF_ONE_CONNECTION
                }
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            except (OSError, TimeoutError) as error:
                return 504, [], str(error).encode()
            finally:
                connection.close()

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name of the base class)
            """Say nothing: the record is what the caller reads."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    record = HttpRecord(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield record
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
