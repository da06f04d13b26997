"""Queries the HTTP API of Prometheus, and of servers with the same one, such as Thanos, Mimir and VictoriaMetrics.

If a server is busy or does not answer, the request is repeated after delays that double, TRIES times in all; then it
fails. A token is read from its file for each request, so that a renewed token is used. A redirect is an error: to
follow it would send the token to another server.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.bounds.back_off import BackOff
from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.answers import without_report
from pulsar_barycenter.observer.prometheus.series import (
    BROKER_SERIES,
    AnswerTooLargeError,
    Extent,
    ImportRefusedError,
    Matrix,
    Series,
    Window,
    check_times,
)
from pulsar_barycenter.whole_files.reading import read_regular

MAX_ANSWER_BYTES: Final = 256 << 20
"""The maximum size of an answer."""
TIMEOUT_S: Final = 120.0
TRIES: Final = 6
"""The maximum number of times that a request is sent."""
MAX_TOKEN_BYTES: Final = 64 << 10
FIRST_BACK_OFF_S: Final = 1.0
LONGEST_BACK_OFF_S: Final = 30.0
_CLUSTER: Final = "cluster"
_BUSY: Final = (0, 408, 429, 500, 502, 503, 504)
_TOO_MUCH: Final = ("maximum resolution", "too many samples", "timed out", "limit", "too large")
_SCANS: Final = 500
"""The maximum number of steps in the query for the begin and the end of the metrics."""
_TOO_LONG: Final = "the answer has more than"
_OF_BROKERS: Final = "|".join(name for name in BROKER_SERIES.values() if name.startswith("pulsar_"))


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    error_type: str = ""


class PrometheusApi:
    """A source of metrics: the HTTP API of a Prometheus at a web address."""

    def __init__(
        self,
        url: str,
        client: AdminClient,
        *,
        labels: Sequence[tuple[str, str]] = (),
        back_off: BackOff,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Prepare to read from the API at `url`. Only series that have all labels in `labels` are read. `client` has
        the credentials and the size limit of an answer; the caller closes it. `back_off` gives the delays between the
        attempts of a request.
        """
        self._url = url.rstrip("/")
        self._client = client
        self._labels = tuple(labels)
        self._back_off = back_off
        self._sleep = sleep

    async def now_ms(self) -> int:
        """Return the time by the clock of the server, epoch ms.

        Raises:
            ImportRefusedError: the server does not answer, or is not a Prometheus.
        """
        raw = await self._ask("query", {"query": "time()"})
        try:
            told = decode_json(raw, dict[str, Any])
            return round(float(told["result"][1]) * 1000)
        except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:  # DecodeError is a ValueError
            raise self._no_prometheus(str(error)) from error

    async def extents(self, since_ms: int, until_ms: int) -> Sequence[Extent]:
        step_s = max(60, -(-(until_ms - since_ms) // (1000 * _SCANS)))
        selected = self._selector({}, f'__name__=~"{_OF_BROKERS}"')
        found = await self._range(
            f"count by ({_CLUSTER}) (last_over_time({selected}[{step_s}s]))",
            since_ms / 1000 + step_s,
            until_ms / 1000 + step_s,
            step_s,
        )
        extents = []
        for series in found:
            times = [at for at, _ in series.values]
            first_ms, last_ms = round(times[0] - step_s) * 1000, round(times[-1]) * 1000
            extents.append(Extent(series.metric.get(_CLUSTER, ""), first_ms, min(last_ms, until_ms)))
        return sorted(extents, key=lambda extent: extent.cluster)

    async def series(self, name: str, cluster: str, window: Window) -> Sequence[Series]:
        selector = self._selector({_CLUSTER: cluster} if cluster else {}, name=name)
        return await self._range(selector, window.first_ms / 1000, window.last_ms / 1000, window.step_ms / 1000)

    def _selector(self, more: Mapping[str, str], *matchers: str, name: str = "") -> str:
        labels = [f"{label}={_quoted(value)}" for label, value in (*more.items(), *self._labels)]
        return f"{name}{{{','.join((*matchers, *labels))}}}"

    async def _range(self, query: str, first_s: float, last_s: float, step_s: float) -> list[Series]:
        asked = {"query": query, "start": f"{first_s:.3f}", "end": f"{last_s:.3f}", "step": f"{step_s:.3f}"}
        try:
            matrix = decode_json(await self._ask("query_range", asked), Matrix)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise self._no_prometheus(str(error)) from error
        check_times(matrix.result, self._url)
        return [series for series in matrix.result if series.values]

    async def _ask(self, endpoint: str, asked: Mapping[str, str]) -> bytes:
        """Send a request with the parameters `asked` to an endpoint of the API, and return the field `data` of the
        answer as JSON. A request that fails is repeated.

        Raises:
            AnswerTooLargeError: the answer is too large, or its query took too long.
            ImportRefusedError: the server did not answer any attempt, or refuses the request.
        """
        path = f"/api/v1/{endpoint}?{urlencode(asked)}"
        self._back_off.reset()
        why = ""
        for number in range(TRIES):
            if number:
                await self._sleep(self._back_off.next_s())
            try:
                answer = await self._client.ask(self._url, path)
            except AdminRequestError as error:
                if error.reason.startswith(_TOO_LONG):
                    raise AnswerTooLargeError(f"{self._url}: {error.reason}") from error
                why = without_report(AdminRequestError("GET", f"{self._url}/api/v1/{endpoint}", 0, error.reason))
                continue
            if answer.status not in _BUSY:
                return self._understood(answer.status, answer.body)
            why = f"{self._url} answered {answer.status}: {self._error(answer.body)[:300]}"
            if "timeout" in why or "timed out" in why:
                raise AnswerTooLargeError(why)
        raise ImportRefusedError(
            f"{why}; asked {count_of(TRIES, 'time')}. Give the same command again: it continues after"
            " the last stored step"
        )

    def _understood(self, status: int, body: bytes) -> bytes:
        if status in (401, 403):
            raise ImportRefusedError(
                f"{self._url} refused the request ({status}); give a file with a bearer token: --token-file FILE"
            )
        if 300 <= status < 400:
            raise ImportRefusedError(
                f"{self._url} redirects ({status}), and redirects are not followed; give the final address"
            )
        try:
            answer = decode_json(body, _Answer)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise self._no_prometheus(
                f"the server answered {status}, but not in the form of Prometheus's API"
            ) from error
        if answer.status == "success":
            return bytes(answer.data)
        if any(sign in answer.error for sign in _TOO_MUCH):
            raise AnswerTooLargeError(f"{self._url}: {answer.error}")
        raise ImportRefusedError(f"{self._url} refused the query ({status}): {answer.error[:300]}")

    def _error(self, body: bytes) -> str:
        try:
            answer = decode_json(body, _Answer)
        except (msgspec.DecodeError, msgspec.ValidationError):
            return body[:300].decode(errors="replace")
        return f"{answer.error_type}: {answer.error}"

    def _no_prometheus(self, why: str) -> ImportRefusedError:
        return ImportRefusedError(
            f"{self._url} is not a Prometheus: {why}; give the address below which /api/v1/query_range is"
        )


def usual_back_off() -> BackOff:
    """Return the usual growing delays between the attempts of a request to Prometheus."""
    return BackOff(random.Random(), FIRST_BACK_OFF_S, LONGEST_BACK_OFF_S)


def bearer(file: Path | None) -> Callable[[], Mapping[str, str]]:
    """Return a function that returns the header `Authorization` with the token in `file`, which is read at each call.
    If `file` is None, the function returns no header.
    """
    return dict if file is None else lambda: {"Authorization": f"Bearer {token_in(file)}"}


def token_in(file: Path) -> str:
    """Return the token in a file, without white space around it.

    Raises:
        ImportRefusedError: the file cannot be read, or does not have one line of text.
    """
    try:
        content = read_regular(file, MAX_TOKEN_BYTES)
        token = content.decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ImportRefusedError(
            f"cannot read a token from {file}: {error}; give a file with a bearer token"
        ) from error
    if not token or not token.isprintable() or " " in token:
        raise ImportRefusedError(f"{file} does not have a bearer token; give a file with the token and nothing else")
    return token


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
