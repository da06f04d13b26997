"""Isolation policies, failure domains and anti-affinity groups as values, and their reasons in selection."""

import random
from typing import Any

import msgspec
import numpy as np
import pytest

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.filters.anti_affinity import anti_affinity, anti_affinity_veto
from pulsar_barycenter.load.filters.namespace_policies import policy_candidates
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.policies import (
    ClusterPolicies,
    FailureDomain,
    IsolationPolicies,
    IsolationPolicy,
    NamespaceIsolationData,
    PolicyError,
    domains_of_brokers,
    group_key,
    host_of_broker,
    isolation_data,
    namespaces_to_unload,
    stored_form,
)
from pulsar_barycenter.load.reasons import Code, Reason, render
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory, SelectionSettings, select_broker
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot
from pulsar_barycenter.load.strategies import placer_of
from support.filter_outcomes import removed
from support.load_cases import MODULAR, Cluster, bundle_name

PLACER = placer_of(BrokerConfig())


def stored(
    *namespaces: str,
    primary: tuple[str, ...] = ("b1",),
    secondary: tuple[str, ...] = (),
    min_limit: object = 1,
    **more: Any,
) -> dict[str, Any]:
    return {
        "namespaces": list(namespaces or ("t/ns",)),
        "primary": list(primary),
        "secondary": list(secondary),
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": min_limit, "usage_threshold": "100"},
        },
        **more,
    }


def data(*namespaces: str, **more: Any) -> NamespaceIsolationData:
    return isolation_data("p", stored(*namespaces, **more))


def policy(*namespaces: str, **more: Any) -> IsolationPolicy:
    return IsolationPolicy.of("p", data(*namespaces, **more))


def brokers(*names: str, **isolation: dict[str, Any]) -> Cluster:
    cluster = Cluster(policies=ClusterPolicies(IsolationPolicies.decode(isolation)[0]))
    for name in names:
        cluster.add(name)
    return cluster


def select(cluster: Cluster, bundle: str = bundle_name(0), **options: Any) -> Placement:
    settings = SelectionSettings(MODULAR, **options)
    request = PlacementRequest(bundle)
    return select_broker(cluster.snapshot(), request, settings, PLACER, random.Random(0), SelectionMemory())[0]


def codes(reason: Reason) -> dict[str, Code]:
    return {alternative.name: alternative.code for alternative in reason.alternatives}


def names(snapshot: LoadSnapshot, flags: Flags) -> list[str]:
    return [snapshot.brokers.names[row] for row in np.flatnonzero(flags)]


# ---- isolation policies ----


def test_regexes_match_the_whole_namespace_and_the_whole_host() -> None:
    isolated = policy("t/ns-.", primary=("broker-1",), secondary=("broker-.*",))
    covering = IsolationPolicies((isolated,)).of_namespace
    assert [name for name in ("t/ns-1", "t/ns-12", "xt/ns-1") if covering(name)] == ["t/ns-1"]
    assert [name for name in ("broker-1:80", "broker-12:80", "a-broker-1:80") if isolated.is_primary(name)] == [
        "broker-1:80"
    ]
    assert isolated.is_secondary("broker-12:80")


@pytest.mark.parametrize(
    ("regex", "matching", "other"),
    [
        ("b1", "b1:8080", "b1"),
        ("b1:8080", "b1:8080", "b1:8081"),
        ("::1", "[::1]:8080", "[::2]:8080"),
        (r"\[::1\]", "[::1]:8080", "::2:8080"),
        (r"\[::1\]:80.*", "[::1]:8080", "[::1]:9090"),
        ("::1", "::1:8080", "::2:8080"),
        ("b.+", "b1:8080", "b:8080"),
        (r"\Qb.1\E-?\Q.c", "b.1-.c:80", "bx1.c:80"),
        (r"b\d", "b1:80", "b\u0661:80"),
        (r"[\]\[a]1", "a1:80", "b1:80"),
    ],
)
def test_a_broker_is_matched_by_host_and_where_the_regex_has_a_colon_by_port_too(
    regex: str, matching: str, other: str
) -> None:
    isolated = policy(primary=(regex,))
    assert isolated.is_primary(matching)
    assert not isolated.is_primary(other)


def test_the_host_of_a_broker_id_is_what_stands_before_the_last_colon() -> None:
    assert [host_of_broker(text) for text in ("b1:8080", "[::1]:80", "b1", ":80")] == ["b1", "[::1]", None, ""]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"namespaces": []}, "namespaces is empty"),
        ({"primary": []}, "primary is empty"),
        ({"primary": None}, "primary is empty"),
        ({"namespaces": ["t/("]}, "namespaces: 't/(' is not a valid regular expression"),
        ({"primary": ["b", "b["]}, "primary: 'b[' is not a valid regular expression"),
        ({"secondary": ["*"]}, "secondary: '*' is not a valid regular expression"),
        ({"primary": ["[a[b]]"]}, "a character set inside another one"),
        ({"primary": ["[a-z&&[^b]]"]}, "a character set inside another one"),
        ({"secondary": ["[a-z&&b]"]}, "a character set inside another one"),
        ({"primary": [r"\p{Alpha}"]}, "invalid character class"),
        ({"namespaces": ["t/(?!ns).*"]}, "look-arounds"),
        ({"namespaces": [r"(.)/\1"]}, "invalid escape"),
        ({"namespaces": ["t/a++"]}, "possessive"),
        ({"namespaces": ["t/a{,5}"]}, "because Java reads them differently"),
        ({"namespaces": ["((a{100}){100})"]}, "at most 1,000"),
        ({"namespaces": ["a" * 1_001]}, "1001 characters"),
        ({"namespaces": ["\ud800"]}, "not Unicode"),
        ({"namespaces": ["a{1000}"] * 300}, "together"),
        ({"primary": "b"}, "array"),
        ({"auto_failover_policy": None}, "auto_failover_policy is missing"),
        ({"auto_failover_policy": {"policy_type": "other"}}, "set it to 'min_available', the only known one"),
        ({"auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": 1}}}, "usage_threshold"),
        ({"auto_failover_policy": {"policy_type": "min_available", "parameters": {}}}, "min_limit is ''"),
        ({"unload_scope": "some"}, "use one of all_matching, changed, none"),
    ],
)
def test_a_bad_policy_is_refused_with_its_name_and_the_field(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(PolicyError) as caught:
        IsolationPolicy.of("mine", isolation_data("mine", {**stored(), **change}))
    assert "'mine'" in str(caught.value)
    assert problem in str(caught.value)


@pytest.mark.parametrize("limit", ["1.5", "", "x", "9" * 10, "1_0", " 1", "\u0661"])
def test_a_min_limit_that_is_no_32_bit_number_is_refused(limit: str) -> None:
    with pytest.raises(PolicyError, match="give a whole number"):
        policy(min_limit=limit)


@pytest.mark.parametrize(("limit", "number"), [("+2", 2), (3, 3), ("-1", -1), ("2147483647", 2**31 - 1)])
def test_a_min_limit_is_text_or_number(limit: object, number: int) -> None:
    assert policy(min_limit=limit).min_limit == number


def test_a_stored_policy_that_makes_no_sense_is_left_out_and_told() -> None:
    isolation, errors = IsolationPolicies.decode({"bad": {"namespaces": ["t/("]}, "good": stored(), "odd": 7})
    assert [found.name for found in isolation.policies] == ["good"]
    assert [error.policy for error in errors] == ["bad", "odd"]


CATASTROPHES = ["(a|aa)+x", "(a+)+x", "(.*)*x", "(a|a)*x", "(.*a){30}x", "([^/]|[^x])*[a-y]{50}x"]


@pytest.mark.parametrize("regex", CATASTROPHES)
def test_no_regex_takes_more_than_linear_time(regex: str) -> None:
    """With backtracking, each of them would keep a broker busy for longer than anybody waits."""
    text = "a" * 500
    isolation, errors = IsolationPolicies.decode({"p": stored(regex, primary=(regex,), secondary=(regex,))})
    assert not errors
    assert isolation.of_namespace(text) is None
    assert not isolation.policies[0].is_primary(f"{text}:8080")
    assert namespaces_to_unload([text], data(regex), None) == []


def test_all_policies_together_have_regexes_of_a_bounded_size() -> None:
    """One of `.{0,100}` takes 900 steps, so 60 of them about a quarter of what there is."""
    many = {f"p{number}": stored(*["t/.{0,100}"] * 60) for number in range(6)}
    isolation, errors = IsolationPolicies.decode({**many, "last": stored("t/y")})
    assert [policy.name for policy in isolation.policies] == ["p0", "p1", "p2", "last"]
    assert [error.policy for error in errors] == ["p3", "p4", "p5"]
    assert "together" in str(errors[0])
    assert isolation.of_namespace("t/x") is isolation.policies[0]


def test_what_is_stored_holds_every_list_and_texts() -> None:
    form = stored_form(isolation_data("p", {**stored(min_limit=2), "secondary": None, "unload_scope": "none"}))
    assert form["secondary"] == []
    assert form["auto_failover_policy"]["parameters"] == {"min_limit": "2", "usage_threshold": "100"}
    assert form["unload_scope"] == "none"
    assert "unload_scope" not in stored_form(data())


def test_of_several_policies_for_a_namespace_the_first_stored_counts() -> None:
    isolation, _ = IsolationPolicies.decode({"z": stored("t/.*"), "a": stored("t/ns")})
    found = isolation.of_namespace("t/ns")
    assert found is not None
    assert found.name == "z"
    assert isolation.of_namespace("u/ns") is None


def test_secondary_brokers_help_out_while_too_few_primary_ones_live() -> None:
    """As in the module's example, with min_limit 2: b1 and b2 suffice; with b2 gone b3 helps out, and b1 stays."""
    isolated = stored("t/ns", primary=("b[12]",), secondary=("b.*",), min_limit=2)
    both = brokers("b1:80", "b2:80", "b3:80", "c1:80", p=isolated)
    placement = select(both)
    assert placement.broker in ("b1:80", "b2:80")
    assert codes(placement.reason)["b3:80"] is Code.SECONDARY_IN_RESERVE
    assert codes(placement.reason)["c1:80"] is Code.NOT_IN_ISOLATION_POLICY
    one = brokers("b1:80", "b3:80", "c1:80", p=isolated).snapshot()
    outcome = policy_candidates(one, PlacementRequest(bundle_name(0)))
    assert names(one, outcome.kept) == ["b1:80", "b3:80"]
    assert "live primary brokers 1 < min_limit 2" in outcome.note


def test_a_primary_broker_serves_nothing_but_its_policy() -> None:
    cluster = brokers("b1:80", "b2:80", p=stored("t/ns", primary=("b1",), secondary=("b2",)))
    placement = select(cluster, bundle_name(0, "u/other"))
    assert placement.broker == "b2:80"
    assert codes(placement.reason) == {"b1:80": Code.KEPT_FOR_OTHERS}
    assert "namespaceIsolationPolicies" in placement.reason.settings


def test_a_policy_does_not_ask_for_the_kind_of_topics() -> None:
    cluster = brokers("b1:80", p=stored("t/ns"))
    for name, report in cluster.reports.items():
        cluster.reports[name] = msgspec.structs.replace(report, persistent_topics_enabled=False)
    snapshot = cluster.snapshot()
    assert policy_candidates(snapshot, PlacementRequest(bundle_name(0))).kept.all()
    assert not policy_candidates(snapshot, PlacementRequest(bundle_name(0, "u/x"))).kept.any()


def test_a_broker_without_port_fits_no_policy() -> None:
    cluster = brokers("b1", "b2:80", p=stored("t/ns", primary=(".*",)), q=stored("t/x", primary=("none",)))
    assert codes(select(cluster).reason)["b1"] is Code.ID_WITHOUT_PORT
    unmatched = brokers("b1", "b2:80", q=stored("t/x", primary=("none",)))
    assert codes(select(unmatched).reason) == {"b1": Code.ID_WITHOUT_PORT}
    assert select(brokers("b1")).broker == "b1"


def test_nobody_is_placed_outside_a_policy_none_of_whose_brokers_live() -> None:
    placement = select(brokers("c1:80", p=stored("t/ns", primary=("b.*",), secondary=("d.*",))))
    assert placement.broker is None
    text = render(placement.reason)
    assert "isolation policy p applies to t/ns, live primary brokers 0" in text
    assert "put aside" not in text


def test_an_overloaded_choice_does_not_lead_out_of_the_policy() -> None:
    cluster = brokers("b1:80", "b2:80", p=stored("t/ns", primary=("b1",)))
    cluster.add("b1:80", cpu=99)
    assert select(cluster).broker == "b1:80"


@pytest.mark.parametrize(
    ("before", "after", "unloaded"),
    [
        (None, data("t/a"), ["t/a"]),
        (data("t/a"), data("t/a"), []),
        (data("t/a", primary=("b1", "b2")), data("t/a", primary=("b2", "b1")), []),
        (data("t/a"), data("t/a", primary=("b2",)), ["t/a"]),
        (data("t/a"), data("t/a", secondary=("b2",)), []),
        (data("t/a", "t/b"), data("t/b", "t/c"), ["t/a", "t/c"]),
        (data("t/a", "t/b"), data("t/b", "t/c", unload_scope="all_matching"), ["t/a", "t/b", "t/c"]),
        (data("t/a"), data("t/a", unload_scope="all_matching"), ["t/a"]),
        (data("t/a", "t/b"), data("t/b", primary=("b9",)), ["t/a", "t/b"]),
        (data("t/a"), data("t/c", primary=("b9",), unload_scope="none"), []),
    ],
)
def test_setting_a_policy_unloads_what_its_scope_says(
    before: NamespaceIsolationData | None, after: NamespaceIsolationData, unloaded: list[str]
) -> None:
    assert namespaces_to_unload(["t/a", "t/b", "t/c", "t/abc"], after, before) == unloaded


# ---- failure domains and anti-affinity groups ----


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("g", "G", True),
        ("g", "h", False),
        ("\u00df", "ss", False),
        ("\u03c3", "\u03c2", True),
        ("\u0130", "I", True),
        ("g ", "g", False),
    ],
)
def test_groups_compare_without_regard_to_case_letter_by_letter(one: str, other: str, same: bool) -> None:
    assert (group_key(one) == group_key(other)) == same


@pytest.mark.parametrize("blank", [None, "", " \t"])
def test_a_blank_group_is_none(blank: str | None) -> None:
    assert group_key(blank) is None


def spread(held: dict[str, int], domains: dict[str, FailureDomain]) -> LoadSnapshot:
    """Return brokers with so many namespaces each of the group of `t/new`."""
    cluster, groups = Cluster(), {"t/new": "g"}
    for broker, count in held.items():
        bundles = {bundle_name(0, f"t/{broker[:2]}-{number}"): NamespaceBundleStats() for number in range(count)}
        groups.update(dict.fromkeys((name.rpartition("/")[0] for name in bundles), "g"))
        cluster.add(broker, bundles=bundles)
    cluster.policies = ClusterPolicies(domains=domains_of_brokers(domains), groups=groups)
    return cluster.snapshot()


EXAMPLE = {"b1:80": 2, "b2:80": 1, "b3:80": 2, "b4:80": 1, "b5:80": 2, "b6:80": 2}
DOMAINS = {
    "d1": FailureDomain(("b1:80", "b2:80")),
    "d2": FailureDomain(("b3:80", "b4:80")),
    "d3": FailureDomain(("b5:80", "b6:80")),
}


def test_domains_then_brokers_with_the_fewest_namespaces_of_the_group_stay() -> None:
    """The example of the module: domains of 3, 3 and 4, then the brokers that have one."""
    snapshot = spread(EXAMPLE, DOMAINS)
    steps = anti_affinity(snapshot, np.ones(6, bool), "t/new", failure_domains=True)
    assert [names(snapshot, step.kept) for step in steps] == [["b1:80", "b2:80", "b3:80", "b4:80"], ["b2:80", "b4:80"]]
    told = [
        {each.name: each.code for each in step.alternatives(snapshot.brokers.names, removed(step))} for step in steps
    ]
    assert told[0] == {"b5:80": Code.GROUP_IN_DOMAIN, "b6:80": Code.GROUP_IN_DOMAIN}
    assert told[1] == {"b1:80": Code.GROUP_ON_BROKER, "b3:80": Code.GROUP_ON_BROKER}


def test_brokers_outside_all_domains_make_one_of_their_own() -> None:
    snapshot = spread({"b1:80": 0, "b2:80": 1, "b3:80": 1, "b4:80": 0}, {"d": FailureDomain(("b1:80", "b2:80"))})
    (domains, _) = anti_affinity(snapshot, np.array([True, True, True, False]), "t/new", failure_domains=True)
    assert names(snapshot, domains.kept) == ["b1:80", "b2:80", "b3:80"]


def test_domains_count_only_if_they_are_enabled_and_a_group_only_for_its_namespaces() -> None:
    snapshot = spread(EXAMPLE, DOMAINS)
    (step,) = anti_affinity(snapshot, np.ones(6, bool), "t/new", failure_domains=False)
    assert names(snapshot, step.kept) == ["b2:80", "b4:80"]
    assert anti_affinity(snapshot, np.ones(6, bool), "t/elsewhere", failure_domains=True) == ()


def test_selection_spreads_a_group_and_says_why() -> None:
    cluster = Cluster().add("b1:80", bundles={bundle_name(0, "t/a"): NamespaceBundleStats()})
    cluster.add("b2:80", bundles={bundle_name(0, "t/x"): NamespaceBundleStats(msg_rate_in=900)})
    cluster.policies = ClusterPolicies(groups={"t/a": "g", "t/b": "g"})
    placement = select(cluster, bundle_name(0, "t/b"))
    assert placement.broker == "b2:80"
    assert codes(placement.reason) == {"b1:80": Code.GROUP_ON_BROKER}
    assert "namespaceAntiAffinityGroup" in placement.reason.settings


def test_a_bundle_stays_where_every_broker_has_as_much_of_its_group() -> None:
    everyone = np.ones(2, bool)
    assert anti_affinity_veto(spread({"b1:80": 1, "b2:80": 1}, {}), everyone, "t/new") is not None
    assert anti_affinity_veto(spread({"b1:80": 1, "b2:80": 0}, {}), everyone, "t/new") is None
    assert anti_affinity_veto(spread({"b1:80": 2, "b2:80": 1}, {}), everyone, "t/new") is None
    assert anti_affinity_veto(spread({"b1:80": 0, "b2:80": 0}, {}), everyone, "t/new") is None
    assert anti_affinity_veto(spread({"b1:80": 1, "b2:80": 1}, {}), everyone, "t/elsewhere") is None
