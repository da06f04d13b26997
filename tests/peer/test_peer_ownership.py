"""The ownership of bundles in the extensible load manager beside Pulsar's: states, conflicts, records and repairs."""

import json
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.load.service_units.conflicts import Conflict, conflict
from pulsar_barycenter.load.service_units.events import releasing
from pulsar_barycenter.load.service_units.repairs import concerns, look_over, override
from pulsar_barycenter.load.service_units.report_tombstones import (
    TOMBSTONE_INTERVAL_MS,
    ReportEffect,
    effect_on_reports,
)
from pulsar_barycenter.load.service_units.service_unit_state import (
    GREATEST_VERSION,
    LEAST_VERSION,
    TRANSITIONS,
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
    decode_record,
    encode_record,
    next_version,
)
from pulsar_barycenter.load.service_units.stability import JITTERY_MS, stability
from pulsar_barycenter.naming.bundle import BundleRange
from support.peer_cases import drawn
from support.pulsar_peer import PulsarPeer

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]

S = ServiceUnitState
ME = "me:1"
BROKERS = (ME, "a:1", "b:1")
NAMES = (None, None, *BROKERS, *BROKERS, "", " ")
CHILDREN = ("0x00000000_0x40000000", "0x40000000_0x80000000")
STORAGES = {"SystemTopic": StorageType.SYSTEM_TOPIC, "MetadataStore": StorageType.METADATA_STORE}


def test_the_same_states_follow(peer: PulsarPeer) -> None:
    ((_, there),) = peer.ask("Ownership", "states", [None], lambda _case: {})
    for name, storage in STORAGES.items():
        assert {state.value: sorted(after) for state, after in TRANSITIONS[storage].items()} == there[name]
    assert [state.value for state in S if state.is_in_flight] == [n for n in map(str, S) if n in there["inFlight"]]
    assert [state.value for state in S if state.is_active] == [n for n in map(str, S) if n in there["active"]]


def text(record: ServiceUnitStateData | None) -> str | None:
    return None if record is None else encode_record(record).decode()


def draw_record(rng: random.Random, names: tuple[str | None, ...] = NAMES) -> ServiceUnitStateData:
    while True:
        state = rng.choice(list(S))
        children = {child: rng.choice((None, "a:1")) for child in rng.sample(CHILDREN, rng.choice((0, 1, 2, 2)))}
        try:
            return ServiceUnitStateData(
                state,
                dst_broker=rng.choice(names),
                source_broker=rng.choice(names),
                split_service_unit_to_dest_broker=children if state is S.SPLITTING else None,
                force=rng.random() < 0.1,
                timestamp=rng.choice((0, 1, 1_700_000_000_000)),
                version_id=rng.choice((1, 2, 3, 0, -1, 99, LEAST_VERSION, GREATEST_VERSION, GREATEST_VERSION - 1)),
                epoch=rng.choice((None, 0, 7, GREATEST_VERSION)),
            )
        except ValueError:
            continue


Pair = tuple[ServiceUnitStateData | None, ServiceUnitStateData | None]


def draw_pair(rng: random.Random) -> Pair:
    """Draw two records of which the later often follows the earlier, with the same brokers or almost."""
    earlier = None if rng.random() < 0.1 else draw_record(rng)
    if rng.random() < 0.03:
        return earlier, None
    later = draw_record(rng)
    if earlier is None:
        return earlier, later
    version = next_version(earlier) + rng.choice((0, 0, 0, 0, 0, 0, -1, -2, 1, 2))
    version = min(max(version, LEAST_VERSION), GREATEST_VERSION) if rng.random() < 0.9 else later.version_id
    brokers = rng.choice(
        (
            {},
            {"dst_broker": earlier.dst_broker, "source_broker": earlier.source_broker},
            {"source_broker": earlier.dst_broker},
            {"dst_broker": None, "source_broker": earlier.dst_broker},
            {"source_broker": None},
        )
    )
    usual = sorted(TRANSITIONS[rng.choice(list(StorageType))][earlier.state])
    state = rng.choice(usual) if rng.random() < 0.8 else later.state
    try:
        return earlier, msgspec.structs.replace(later, version_id=version, state=state, **brokers)
    except ValueError:
        return earlier, msgspec.structs.replace(later, version_id=version)


def test_the_same_record_of_two_is_kept(peer: PulsarPeer, cases: int, seed: int) -> None:
    """Pulsar's rule fails where a bundle is released that is owned by nobody named; ours refuses that."""
    questions = drawn(random.Random(f"conflicts {seed}"), cases, draw_pair)
    found: Counter[Conflict | None] = Counter()

    def document(case: tuple[int, Pair]) -> Any:
        return [text(record) for record in case[1]]

    for (number, (earlier, later)), there in peer.ask("Ownership", "conflicts", questions, document):
        ours = [conflict(earlier, later, storage) for storage in STORAGES.values()]
        found.update(ours)
        for refusal, is_kept in zip(ours, there, strict=True):
            if is_kept is None:
                assert earlier is not None
                assert (earlier.state, earlier.dst_broker, refusal) == (S.OWNED, None, Conflict.BROKERS), number
            else:
                assert (refusal is not None) is is_kept, number
    print(f"{cases} pairs:", ", ".join(f"{one.name if one else 'replaced'} {count}" for one, count in found.items()))
    assert min(found[one] for one in (None, *Conflict)) > cases // 50


def draw_document(rng: random.Random) -> dict[str, Any]:
    """Draw the JSON of a record, with fields that are missing, null or unknown; many of them are no record."""
    record = draw_record(rng)
    document: dict[str, Any] = json.loads(encode_record(record))
    for key in sorted(document.keys() - {"state"}):
        if rng.random() < 0.15:
            document.pop(key, None)
    if rng.random() < 0.1:
        document["colour"] = rng.choice(("red", None, {"a": [1]}))
    if rng.random() < 0.1:
        document[rng.choice(("dstBroker", "sourceBroker", "splitServiceUnitToDestBroker"))] = None
    if rng.random() < 0.1:
        document["state"] = rng.choice(("owned", "Gone", "", None))
    if rng.random() < 0.1:
        document["timestamp"] = rng.choice((2**63, -(2**63) - 1, "soon"))
    return document


def test_records_are_read_and_refused_alike(peer: PulsarPeer, cases: int, seed: int) -> None:
    """What ours writes Pulsar reads, `epoch` ignored; what Pulsar writes of it ours reads; and so what others write."""
    questions = drawn(random.Random(f"records {seed}"), cases, draw_document)
    refused = numbered = 0

    def question(case: tuple[int, dict[str, Any]]) -> str:
        try:
            return encode_record(decode_record(json.dumps(case[1]).encode())).decode()
        except msgspec.DecodeError:
            return json.dumps(case[1])

    for (number, document), there in peer.ask("Ownership", "written", questions, question):
        try:
            ours = decode_record(json.dumps(document).encode())
        except msgspec.DecodeError:
            assert there is None, number
            refused += 1
            continue
        assert there is not None, number
        again = decode_record(there.encode())
        if "versionId" in document:
            assert again == msgspec.structs.replace(ours, epoch=None), number
        numbered += ours.epoch is not None
    print(f"{cases} documents, {refused} refused by both, {numbered} with a number of the term")
    assert min(refused, numbered) > cases // 10


def bundle_names() -> list[str]:
    edges = (0, 0x20000000, 0x40000000, 0x60000000, 0x80000000, 0xFFFFFFFF)
    return [f"t/ns/{BundleRange(edges[at], edges[at + 1])}" for at in range(len(edges) - 1)]


@dataclass
class Records:
    """Records of a namespace's bundles, who lives, and who is chosen for each bundle by the leader's placement."""

    records: dict[str, ServiceUnitStateData]
    ages_ms: dict[str, int]
    live: list[str]
    chosen: dict[str, str]
    in_flight_ms: int
    tombstone_s: int

    def document(self) -> dict[str, Any]:
        return {
            "records": {name: {"record": text(one), "ago": self.ages_ms[name]} for name, one in self.records.items()},
            "live": self.live,
            "chosen": self.chosen,
            "configuration": {
                "loadBalancerInFlightServiceUnitStateWaitingTimeInMillis": self.in_flight_ms,
                "loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds": self.tombstone_s,
            },
        }


def draw_records(rng: random.Random) -> Records:
    """Draw records that are owned by somebody if they are owned, where Pulsar's monitor would fail; ages are far from
    what is compared with them, since time goes on in the JVM."""
    bundles = rng.sample(bundle_names(), rng.randint(1, 5))
    names = (None, None, *BROKERS, "gone:1", "lost:1")
    records = {}
    for name in bundles:
        record = draw_record(rng, names)
        while record.state is S.INIT or (record.state is S.OWNED and record.dst_broker is None):
            record = draw_record(rng, names)
        records[name] = record
    return Records(
        records,
        {name: rng.choice((0, 40_000_000, 80_000_000)) for name in bundles},
        [ME, *rng.sample(BROKERS[1:], rng.randint(0, 2))],
        {name: rng.choice(BROKERS) for name in bundles if rng.random() < 0.8},
        in_flight_ms=20_000_000,
        tombstone_s=60_000,
    )


def same(ours: ServiceUnitStateData, theirs: str) -> bool:
    """Tell whether two records are the same but for the time and the number of the term."""
    return msgspec.structs.replace(ours, epoch=None, timestamp=0) == msgspec.structs.replace(
        decode_record(theirs.encode()), timestamp=0
    )


def test_the_leader_finds_and_mends_what_pulsars_does(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    """Of a change whose brokers are both lost Pulsar names one in a look, ours both. Who gets what nobody ended Pulsar
    leaves to placement alone, so ours is asked for what it publishes then."""
    questions = drawn(random.Random(f"monitor {seed}"), cases, draw_records)
    found: Counter[str] = Counter()
    for (number, case), there in complete_peer.ask(
        "Ownership", "monitored", questions, lambda case: case[1].document()
    ):
        now_ms = 2**40
        records = {
            name: msgspec.structs.replace(one, timestamp=now_ms - case.ages_ms[name])
            for name, one in case.records.items()
        }
        ours = look_over(
            records.items(), case.live, now_ms, in_flight_ms=case.in_flight_ms, tombstone_ms=case.tombstone_s * 1000
        )
        assert sorted(ours.outlived) == sorted(there["deleted"]), number
        assert set(there["lost"]) <= ours.lost_brokers, number
        for broker in ours.lost_brokers - set(there["lost"]):
            beside = [one.source_broker for one in records.values() if one.dst_broker == broker and one.state.is_active]
            assert set(beside) & set(there["lost"]), number
        assert ours.orphans.keys() == there["published"].keys(), number
        for name, record in ours.orphans.items():
            assert same(override(record, case.chosen.get(name), now_ms, 1), there["published"][name]), number
        found.update(lost=bool(ours.lost_brokers), orphans=bool(ours.orphans), outlived=bool(ours.outlived))
    print(f"{cases} looks:", dict(found))
    assert min(found.values()) > cases // 10


def test_bundles_are_taken_from_a_broker_as_by_pulsars_leader(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    """From one that is lost; and from one that goes by its own will, which hands over what it owns."""

    def draw(rng: random.Random) -> tuple[Records, str, bool]:
        case = draw_records(rng)
        lost = rng.choice(("gone:1", "lost:1", "a:1"))
        case.chosen = {name: broker for name, broker in case.chosen.items() if broker != lost}
        return case, lost, rng.random() < 0.5

    def document(case: tuple[int, tuple[Records, str, bool]]) -> Any:
        records, lost, gracefully = case[1]
        return records.document() | {"lost": lost, "gracefully": gracefully}

    questions = drawn(random.Random(f"cleanup {seed}"), cases, draw)
    taken: Counter[ServiceUnitState] = Counter()
    for (number, (case, lost, gracefully)), there in complete_peer.ask("Ownership", "cleaned", questions, document):
        concerned = {name: one for name, one in case.records.items() if concerns(one, lost)}
        assert concerned.keys() == there.keys(), number
        for name, record in concerned.items():
            successor = case.chosen.get(name)
            if gracefully and record.state is S.OWNED and successor:
                ours = releasing(record, successor, 0, force=True)
            else:
                ours = override(record, successor, 0, 1)
            assert same(ours, there[name]), number
            taken[ours.state] += 1
    print(f"{cases} brokers:", {state.value: count for state, count in taken.items()})
    assert min(taken[state] for state in (S.OWNED, S.FREE, S.RELEASING, S.SPLITTING)) > cases // 100


def test_the_metadata_store_is_trusted_alike(complete_peer: PulsarPeer) -> None:
    """As Pulsar begins, with a session that was established long ago, ours begins without any that was lost."""
    cases = [
        (event, ago)
        for event in ("SessionReestablished", "SessionLost")
        for ago in (0, 1000, JITTERY_MS - 1, JITTERY_MS, JITTERY_MS + 1, 2 * JITTERY_MS, 2**40)
    ]
    seen = set()
    answers = complete_peer.ask("Ownership", "stability", cases, lambda case: {"event": case[0], "ago": case[1]})
    for (event, _ago), there in answers:
        # it was asked at some time between these two
        ours = {
            stability(
                has_session=event != "SessionLost", reestablished_at_ms=2**41 - elapsed, now_ms=2**41
            ).value.capitalize()
            for elapsed in there["asked"]
        }
        assert there["state"] in ours
        seen.add(there["state"])
    assert seen == {"Stable", "Jittery", "Unstable"}


@dataclass
class Event:
    record: ServiceUnitStateData | None
    ago_ms: int
    failed_duty: bool
    fails: bool

    def document(self) -> dict[str, Any]:
        return {
            "record": text(self.record),
            "ago": self.ago_ms,
            "failedDuty": self.failed_duty,
            "fails": self.fails,
        }


def draw_event(rng: random.Random) -> Event:
    record = None if rng.random() < 0.05 else draw_record(rng, (None, ME, ME, "a:1"))
    ago_ms = rng.choice((-1_000_000, 0, 1, 5000, 9999, 10_000, 10_001, 60_000, 2**40))
    return Event(record, ago_ms, rng.random() < 0.1, rng.random() < 0.2)


def test_reports_are_taken_back_as_by_pulsars_reporters(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    """By the reporter of the load and by that of the top bundles; a tombstone that was not sent does not count."""
    questions = drawn(random.Random(f"report tombstones {seed}"), cases, draw_event)
    seen: Counter[str] = Counter()
    for (number, case), there in complete_peer.ask("Ownership", "reports", questions, lambda case: case[1].document()):
        for topic in ("load", "top"):
            asked = there[topic]
            assert asked["interval"] == TOMBSTONE_INTERVAL_MS
            # it was asked at some time between these two
            possible = {
                ReportEffect.NONE
                if case.failed_duty
                else effect_on_reports(case.record, ME, last_tombstone_ms=0, now_ms=elapsed)
                for elapsed in asked["asked"]
            }
            told = (
                ReportEffect.TAKE_BACK
                if asked["sent"]
                else ReportEffect.FORGET
                if ReportEffect.FORGET in possible
                else ReportEffect.NONE
            )
            assert told in possible, number
            assert asked["moved"] is (asked["sent"] and not case.fails), number
            assert there["forgotten"] is (ReportEffect.NONE not in possible), number
            seen[told.name] += 1
    print(f"{cases} events:", dict(seen))
    assert min(seen[effect.name] for effect in ReportEffect) > cases // 10
