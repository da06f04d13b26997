"""Requests that nobody would send, to a real broker: each has an answer in time, and none is the broker's own fault.

What can be asked is read from the OpenAPI document that the broker serves. Each part of a path, each parameter and each
body is set in turn to what hurts programs (`VALUES`, `BODIES`): that finds the same faults in every run. Schemathesis
draws the rest; `--fuzz-requests` says how many requests of each kind. In the short form, half of the operations, which
the commit draws, get the parts of paths and the requests of Schemathesis.
"""

import gzip
import json
import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar
from urllib.parse import quote

import pytest

schemathesis = pytest.importorskip("schemathesis")
from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis.errors import Unsatisfiable  # noqa: E402

from support.commit import first_of_commit  # noqa: E402
from support.fuzzed_broker import DEADLINE_S, ENDS_THE_BROKER, FuzzedBroker, fuzzed_broker  # noqa: E402
from support.short_forms import has_full_form  # noqa: E402

Operation = TypeVar("Operation")
_LONG_FORM: Final = 100
"""The number of requests for each operation from which on nothing is left out."""

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster in trouble"), pytest.mark.drawn_tests(2)]

KNOWN = {
    "tenant": "public",
    "namespace": "default",
    "cluster": "standalone",
    "topic": "t",
    "subscription": "s",
    "range": "0x00000000_0x40000000",
    "name": "maxTenants",
    "value": "7",
    "allocator": "default",
    "version": "0",
}


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzedBroker]:
    with fuzzed_broker(tmp_path_factory.mktemp("fuzzed")) as broker:
        broker.ask("PUT", "/admin/v2/persistent/public/default/t")
        yield broker


def filled(path: str, **parts: str) -> str:
    """Return a path whose parts are encoded already, the others set to what there is."""
    for name in [piece.split("}")[0] for piece in path.split("{")[1:]]:
        path = path.replace(f"{{{name}}}", parts.get(name) or quote(KNOWN.get(name, "persistent"), safe=""))
    return path


def is_short(config: pytest.Config) -> bool:
    return not has_full_form(config) and config.getoption("--fuzz-requests") < _LONG_FORM


def taken(operations: Iterable[Operation], in_short_form: bool) -> Iterator[Operation]:
    """Return all operations; in the short form those that the commit draws, half of them."""
    rng = random.Random(first_of_commit())
    for operation in operations:
        if rng.random() < 0.5 or not in_short_form:
            yield operation


IMPOSSIBLE = ("%00", "a%00b", "%FF%00")
ODD = (
    "a%2Fb",
    "%FF",
    "%2E%2E",
    "a%0D%0Ab",
    "%E2%80%AE",
    "-1",
    str(2**63),
    "%F0%9F%92%A9",
    "{}",
    "%25",
    "x-partition-99999",
)


def test_parts_of_paths(fuzzed: FuzzedBroker, pytestconfig: pytest.Config) -> None:
    for method, path, described in taken(fuzzed.operations(), is_short(pytestconfig)):
        for parameter in described["parameters"]:
            if parameter["in"] == "path":
                name = parameter["name"]
                for value in IMPOSSIBLE:
                    fuzzed.refuses(method, filled(path, **{name: value}))
                for value in ODD:
                    fuzzed.bears(method, filled(path, **{name: value}))
                longest = parameter["schema"].get("maxLength", 0)
                fuzzed.refuses(method, filled(path, **{name: "x" * (longest + 1)}))
                fuzzed.refuses(method, filled(path, **{name: "%C3%BC" * (longest + 1)}))


def test_parameters(fuzzed: FuzzedBroker) -> None:
    for method, path, described in fuzzed.operations():
        for parameter in described["parameters"]:
            if parameter["in"] == "query":
                name, schema = parameter["name"], parameter["schema"]
                asked = f"{filled(path)}?{name}="
                for value in ("%00", "%FF", "x" * 7_000, "9" * 5_000, "-1", "1e999", "%F0%9F%92%A9", "a/b/c", "=&="):
                    fuzzed.bears(method, asked + value)
                if schema["type"] == "integer":
                    for value in ("9" * 5_000, "-1", "1.5", str(schema["maximum"] + 1), "%C2%B2"):
                        fuzzed.refuses(method, asked + value)


NO_TEXTS = (b"9" * 5_000, b"-1e999", str(2**64).encode())
"""What is no body of any request but those that are a text."""
NO_BODIES = (
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"\xff\xfe",
    b'"\xff"',
    b'"' + b"x" * 100_000 + b'"',
    b'{"key":"' + b"x" * 100_000 + b'"}',
    b'{"ledgerId":%d,"entryId":0}' % (2**70),
    b"[" + b"0," * 400_000 + b"0]",
    b" " * (5 << 20) + b"1",
)
"""What is no body of any request."""
BODIES = (
    b"{}",
    b"[]",
    b"null",
    b"0",
    b"-1",
    b"true",
    b"1.5",
    b'""',
    b'"\\u0000"',
    b'"\\ud800"',
    str(2**31 - 1).encode(),
    str(2**63 - 1).encode(),
    b'{"partitions":%d}' % (2**31 - 1),
    b'{"partitions":%d}' % (2**63 - 1),
    b'{"bundles":{"numBundles":%d}}' % (2**31 - 1),
    b'{"autoTopicCreationOverride":{"allowAutoTopicCreation":true,"topicType":"partitioned","defaultNumPartitions":99999}}',
    b'{"ledgerId":%d,"entryId":%d}' % (2**62, -(2**62)),
    b'{"namespaces":["public/(a|aa)+x"],"primary":["(a|aa)+x"],"auto_failover_policy":'
    b'{"policy_type":"min_available","parameters":{"min_limit":"1","usage_threshold":"1"}}}',
)


BOMB = gzip.compress(b" " * (64 << 20))


def test_bodies(fuzzed: FuzzedBroker) -> None:
    for method, path, described in fuzzed.operations():
        if "requestBody" in described:
            schema = described["requestBody"]["content"]["application/json"]["schema"]
            refused = NO_BODIES if schema.get("type") == "string" else NO_BODIES + NO_TEXTS
            for number, body in enumerate(refused):
                fuzzed.refuses(method, filled(path, topic=f"no{number}", tenant="public", namespace="default"), body)
            fuzzed.refuses(method, filled(path), b"not gzip", Content_Encoding="gzip")
            fuzzed.refuses(method, filled(path), BOMB, Content_Encoding="gzip")
            fuzzed.bears(method, filled(path), b"x", Content_Type="text/plain; charset=none")
            for number, body in enumerate(BODIES):
                fuzzed.bears(method, filled(path, topic=f"b{number}"), body)
            fuzzed.bears("GET", filled("/admin/v2/persistent/{tenant}/{namespace}/b10/partitioned-stats"))


def test_drawn_requests(fuzzed: FuzzedBroker, pytestconfig: pytest.Config) -> None:
    document = json.loads(json.dumps(fuzzed.document))
    del document["paths"][ENDS_THE_BROKER]
    for methods in document["paths"].values():
        for described in methods.values():
            for parameter in described["parameters"]:
                known = KNOWN.get(parameter["name"])
                if known is not None and parameter["in"] == "path":
                    parameter["schema"] = {"anyOf": [{"enum": [known]}, {"enum": [known]}, parameter["schema"]]}
    schema = schemathesis.openapi.from_dict(document)
    both = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    examples = pytestconfig.getoption("--fuzz-requests")
    in_short_form = is_short(pytestconfig)
    drawn = 0
    for place, found in enumerate(taken(schema.get_all_operations(), in_short_form)):
        operation = found.ok()
        # Making ready to draw takes longer than to send: the short form draws what is meant or what is not, by turns.
        for mode in (both[place % 2],) if in_short_form else both:

            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                derandomize=in_short_form,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def send(case: Any) -> None:
                nonlocal drawn
                drawn += 1
                answer = case.call(base_url=fuzzed.url, timeout=DEADLINE_S, allow_redirects=False)
                assert answer.status_code < 500, f"{case.as_curl_command()}: {answer.status_code} {answer.text[:300]}"

            with suppress(Unsatisfiable):  # nothing but the path, or nothing that could be wrong in it
                send()
    assert drawn > (50 if in_short_form else 100)
