"""Why something was decided, as a value: the compared numbers, the alternatives, and the settings that would change it.

Every assignment, unload, split, refusal and "do nothing" carries a `Reason`. Operators read it in logs, in tables of
the command line and on the dashboard. A decision must not get slower because it can be explained, so strategies keep
their numbers as columns and build a reason only when it is read.

A reason holds a code and numbers, no text that was put together by hand. `render` is the only place that makes a
sentence of it: subject, what was decided, the comparisons with their units, further details, alternatives, strategy,
problems of the input data, settings, and then the same of its cause. Heads of sentences contain no "; ", " (" or " [",
because the command line and the dashboard shorten a sentence at these marks.
"""

import math
from collections.abc import Iterable
from enum import StrEnum
from itertools import repeat
from typing import Final

import msgspec

SETTINGS_MARK: Final = "settings: "
"""The words before the configuration keys in a sentence; they follow "; "."""

MAX_ALTERNATIVES: Final = 16
"""The most alternatives that a reason names; `more_alternatives` counts the rest."""


class Code(StrEnum):
    """Names a decision, or the rule that led to the decision. Logs, JSON and stored tables contain the value of a code,
    so a value never changes.
    """

    # a broker was chosen
    PREALLOCATED = "preallocated"
    LEAST_LONG_TERM_RATE = "least_long_term_rate"
    ALL_OVERLOADED = "all_overloaded"
    CHOSEN_AGAIN = "chosen_again"
    NEXT_IN_TURN = "next_in_turn"
    FEWEST_BUNDLES = "fewest_bundles"
    BELOW_AVERAGE = "below_average"
    NONE_BELOW_AVERAGE = "none_below_average"
    PINNED = "pinned"
    PLANNED = "planned"
    PLANNED_IS_OVERLOADED = "planned_is_overloaded"
    PLANNED_IS_GONE = "planned_is_gone"
    DRAWN = "drawn"
    LEAST_PREDICTED = "least_predicted"
    LEAST_LOADED = "least_loaded"
    LEAST_MESSAGE_RATE = "least_message_rate"
    IDLE_BROKER = "idle_broker"
    MOST_ROOM = "most_room"
    ALL_FULL = "all_full"
    WEIGHTED_DRAW = "weighted_draw"
    NO_ROOM_LEFT = "no_room_left"
    NO_CANDIDATE = "no_candidate"
    # a broker was not chosen
    TOO_MANY_TOPICS = "too_many_topics"
    NOT_FEWEST_BUNDLES = "not_fewest_bundles"
    MORE_BUNDLES = "more_bundles"
    OTHER_LOAD_MANAGER = "other_load_manager"
    OLDER_VERSION = "older_version"
    TOPIC_KIND_DISABLED = "topic_kind_disabled"
    NOT_IN_ISOLATION_POLICY = "not_in_isolation_policy"
    SECONDARY_IN_RESERVE = "secondary_in_reserve"
    KEPT_FOR_OTHERS = "kept_for_others"
    ID_WITHOUT_PORT = "id_without_port"
    DRAINED = "drained"
    GROUP_IN_DOMAIN = "group_in_domain"
    GROUP_ON_BROKER = "group_on_broker"
    OVERLOADED = "overloaded"
    HIGHER_RATE = "higher_rate"
    NOT_BELOW_AVERAGE = "not_below_average"
    EQUAL = "equal"
    MORE_LOADED = "more_loaded"
    KEPT_IDLE = "kept_idle"
    ANOTHER_IDLE = "another_idle"
    LESS_ROOM = "less_room"
    NOT_ITS_TURN = "not_its_turn"
    NOT_DRAWN = "not_drawn"
    NOT_LIVE = "not_live"
    NO_LOAD_DATA = "no_load_data"
    # a filter removed no broker
    FILTER_FAILED = "filter_failed"
    FILTER_IGNORED = "filter_ignored"
    # a broker sheds, or a bundle leaves it
    ABOVE_AVERAGE = "above_average"
    ABOVE_LIMIT = "above_limit"
    OTHERS_BELOW_LOWER_BOUNDARY = "others_below_lower_boundary"
    FAR_ABOVE_LEAST = "far_above_least"
    GAP_LASTED = "gap_lasted"
    FAR_ABOVE_DEVIATION = "far_above_deviation"
    HEAVIEST_BUNDLE = "heaviest_bundle"
    FITTING_BUNDLE = "fitting_bundle"
    ABOVE_BAND = "above_band"
    GIVES_TOO = "gives_too"
    FILLS_ANOTHER = "fills_another"
    TAKES_IN_EXCHANGE = "takes_in_exchange"
    TOO_MANY_IDLE = "too_many_idle"
    LEAST_DISTURBING = "least_disturbing"
    EVENS_OUT = "evens_out"
    WORTH_ITS_PRICE = "worth_its_price"
    SPREAD_TOO_WIDE = "spread_too_wide"
    FITTING_TOP_BUNDLE = "fitting_top_bundle"
    EXCHANGED = "exchanged"
    GIVEN_IN_EXCHANGE = "given_in_exchange"
    # a broker does not shed
    WITHIN_THRESHOLD = "within_threshold"
    BELOW_LIMIT = "below_limit"
    BELOW_MINIMUM_THROUGHPUT = "below_minimum_throughput"
    TOO_FEW_BUNDLES = "too_few_bundles"
    NO_SHEDDABLE_BUNDLE = "no_sheddable_bundle"
    DIFFERENCE_TOLERATED = "difference_tolerated"
    NOT_THE_GREATEST = "not_the_greatest"
    LESSER_OF_PAIR = "lesser_of_pair"
    GAP_TOO_NEW = "gap_too_new"
    MIDDLE_BROKER = "middle_broker"
    DEVIATION_TOLERATED = "deviation_tolerated"
    WITHIN_BAND = "within_band"
    MAY_NOT_LAST = "may_not_last"
    GAINS_TOO_LITTLE = "gains_too_little"
    GAIN_TOO_NEW = "gain_too_new"
    NO_GAIN = "no_gain"
    TOO_LITTLE_KNOWN = "too_little_known"
    OUTDATED_LOAD_DATA = "outdated_load_data"
    NO_TOP_BUNDLES = "no_top_bundles"
    NOTHING_FITS = "nothing_fits"
    ROUND_FULL = "round_full"
    BUDGET_USED = "budget_used"
    ENOUGH_BROKERS_SHED = "enough_brokers_shed"
    # no broker sheds
    NO_LOAD = "no_load"
    BALANCED = "balanced"
    CONDITION_TOO_NEW = "condition_too_new"
    COOLING_DOWN = "cooling_down"
    NO_BROKERS = "no_brokers"
    DISABLED = "disabled"
    TOO_FEW_BROKERS = "too_few_brokers"
    # a bundle that was to be unloaded stays
    EXCLUDED_NAMESPACE = "excluded_namespace"
    POLICIES_FORBID = "policies_forbid"
    ANTI_AFFINITY_FORBIDS = "anti_affinity_forbids"
    NO_DESTINATION = "no_destination"
    SAME_BROKER = "same_broker"
    NONE_COMFORTABLE = "none_comfortable"
    RECENTLY_UNLOADED = "recently_unloaded"
    NO_OWNER = "no_owner"
    DESTINATION_REFUSES = "destination_refuses"
    DOES_NOT_FIT = "does_not_fit"
    LAST_TOP_BUNDLE = "last_top_bundle"
    CARRIES_NOTHING = "carries_nothing"
    GAIN_IS_GONE = "gain_is_gone"
    FAILED = "failed"
    # a bundle is split, or not
    BUNDLE_TOO_LARGE = "bundle_too_large"
    NAMESPACE_FULL = "namespace_full"
    FEWER_THAN_TWO_TOPICS = "fewer_than_two_topics"
    RANGE_NOT_DIVISIBLE = "range_not_divisible"
    BUNDLE_GONE = "bundle_gone"
    NOT_OWNED = "not_owned"
    TOO_FEW_HITS = "too_few_hits"
    PARENT_SPLITTING = "parent_splitting"
    NOT_ONE_BOUNDARY = "not_one_boundary"
    CYCLE_FULL = "cycle_full"
    # a strategy of another package, which says why in `detail`
    CHOSEN_BY_STRATEGY = "chosen_by_strategy"
    SHEDS_BY_STRATEGY = "sheds_by_strategy"
    MOVES_BY_STRATEGY = "moves_by_strategy"
    KEPT_BY_STRATEGY = "kept_by_strategy"
    # somebody requested it
    ADMIN = "admin"
    BROKER_LEAVES = "broker_leaves"
    # a broker became leader
    FIRST_LEADER = "first_leader"
    LEADER_RELEASED = "leader_released"
    LEADER_GONE = "leader_gone"
    LEADS_AGAIN = "leads_again"


BROKER_SHEDS: Final = frozenset(
    {
        Code.ABOVE_AVERAGE,
        Code.ABOVE_LIMIT,
        Code.OTHERS_BELOW_LOWER_BOUNDARY,
        Code.FAR_ABOVE_LEAST,
        Code.GAP_LASTED,
        Code.FAR_ABOVE_DEVIATION,
        Code.ABOVE_BAND,
        Code.GIVES_TOO,
        Code.FILLS_ANOTHER,
        Code.TAKES_IN_EXCHANGE,
        Code.TOO_MANY_IDLE,
        Code.EVENS_OUT,
        Code.WORTH_ITS_PRICE,
        Code.SPREAD_TOO_WIDE,
        Code.SHEDS_BY_STRATEGY,
    }
)
"""The codes of a broker that sheds, which are also those of a shedding round in which brokers shed."""


class Compared(msgspec.Struct, frozen=True, gc=False):
    """One comparison that is true: the `value` of `what` is in `relation` (">") to `limit`, which `against` names.

    Both numbers have the same `unit`: "%" (the numbers are fractions), "msg/s", "bytes/s", "s", "topics", "sessions",
    "bundles", "brokers", or "" for plain numbers.
    """

    what: str
    value: float
    relation: str
    against: str
    limit: float
    unit: str = ""


def of_figures(
    what: str, figures: Iterable[float], relation: str, against: str, limit: float, unit: str = ""
) -> list[Compared]:
    """Return a comparison for each number in `figures`, all with the same limit."""
    return list(map(Compared, repeat(what), figures, repeat(relation), repeat(against), repeat(limit), repeat(unit)))


class Alternative(msgspec.Struct, frozen=True, gc=False):
    """A broker or bundle that was not chosen, why not, and the comparison that decided it, if there was one."""

    name: str
    code: Code
    compared: Compared | None = None


class Reason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Why something was decided about `subject`, a broker or a bundle; "" if it is about the whole cluster.

    `compared` has the comparisons that led to the decision. `settings` are the configuration keys that would change the
    decision. `flags` name problems of the input data. `upon` names the source of the compared values, if the values
    could be from several sources. `cause` is the reason of an earlier decision that led to this one; for an unloaded
    bundle, it is the reason why its broker sheds.
    """

    code: Code
    strategy: str = ""
    subject: str = ""
    compared: tuple[Compared, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    more_alternatives: int = 0
    settings: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    detail: str = ""
    upon: str = ""
    cause: "Reason | None" = None


def innermost(reason: Reason) -> Reason:
    """Return the last reason of the chain that begins with `reason` and goes on with its cause, the cause of that
    cause, and so on; `reason` itself if it has no cause.
    """
    while reason.cause is not None:
        reason = reason.cause
    return reason


_SENTENCES: Final[dict[Code, str]] = {
    Code.PREALLOCATED: "the bundle was assigned to it a moment ago",
    Code.LEAST_LONG_TERM_RATE: "it has the lowest long-term message rate of all candidates",
    Code.ALL_OVERLOADED: "every candidate is overloaded, so one was chosen at random",
    Code.CHOSEN_AGAIN: "the first choice was overloaded, so a second one was made from all brokers that policies allow",
    Code.NEXT_IN_TURN: "it is the next broker in the round-robin order",
    Code.FEWEST_BUNDLES: "it has the fewest bundles of the brokers that policies allow",
    Code.BELOW_AVERAGE: "it was chosen at random from the brokers whose smoothed usage is low enough",
    Code.NONE_BELOW_AVERAGE: "no candidate's smoothed usage is low enough, so one candidate was chosen at random",
    Code.PINNED: "the bundle is pinned to it, and it is still a candidate",
    Code.PLANNED: "the shedding plan names it as the destination, and it is a candidate",
    Code.PLANNED_IS_OVERLOADED: "the planned destination is overloaded, so a broker that is not was chosen at random",
    Code.PLANNED_IS_GONE: "the planned destination is no longer a candidate, so another broker was chosen",
    Code.DRAWN: "it was chosen at random",
    Code.LEAST_PREDICTED: "it has the lowest predicted usage of all candidates",
    Code.LEAST_LOADED: "it has the lowest load of all candidates that are not idle",
    Code.LEAST_MESSAGE_RATE: "it has the lowest message rate of all candidates that are not idle",
    Code.IDLE_BROKER: "it is idle, and every candidate that is not idle is above the underload threshold",
    Code.MOST_ROOM: "every candidate is overloaded, and it has free capacity for the most bundles",
    Code.ALL_FULL: "every candidate is full, so the next broker in the round-robin order was chosen",
    Code.WEIGHTED_DRAW: "it was chosen at random, weighted by free capacity",
    Code.NO_ROOM_LEFT: "no candidate has free capacity, so one was chosen at random",
    Code.NO_CANDIDATE: "no broker passes the policies and filters for this bundle",
    Code.TOO_MANY_TOPICS: "it has too many topics",
    Code.NOT_FEWEST_BUNDLES: "another candidate has fewer bundles of the namespace",
    Code.MORE_BUNDLES: "it has more bundles",
    Code.OTHER_LOAD_MANAGER: "it runs a different load manager",
    Code.OLDER_VERSION: "it runs an older version than another candidate",
    Code.TOPIC_KIND_DISABLED: "it does not serve this kind of topic",
    Code.NOT_IN_ISOLATION_POLICY: "the namespace's isolation policy does not include it",
    Code.SECONDARY_IN_RESERVE: "it is a secondary broker of the isolation policy, and enough primary brokers are live",
    Code.KEPT_FOR_OTHERS: "an isolation policy reserves it for other namespaces",
    Code.ID_WITHOUT_PORT: "its id is not of the form host:port, so isolation policies cannot be applied to it",
    Code.DRAINED: "it is drained, so it is used only if no other broker may serve the bundle",
    Code.GROUP_IN_DOMAIN: "its failure domain has more namespaces of the anti-affinity group than another domain",
    Code.GROUP_ON_BROKER: "it has more namespaces of the anti-affinity group than another broker",
    Code.OVERLOADED: "it is overloaded",
    Code.HIGHER_RATE: "it has a higher long-term message rate",
    Code.NOT_BELOW_AVERAGE: "its smoothed usage is not low enough",
    Code.EQUAL: "it is equally good, but another broker was chosen at random",
    Code.MORE_LOADED: "its load is higher, or equal and it comes later in the order",
    Code.KEPT_IDLE: "it is idle, and stays idle while another candidate is below the underload threshold",
    Code.ANOTHER_IDLE: "it is also idle, but comes later in the order",
    Code.LESS_ROOM: "it has free capacity for fewer bundles, or for the same number and comes later in the order",
    Code.NOT_ITS_TURN: "it is not the next broker in the round-robin order",
    Code.NOT_DRAWN: "another broker was chosen at random",
    Code.NOT_LIVE: "it is no longer registered",
    Code.NO_LOAD_DATA: "its load is unknown",
    Code.FILTER_FAILED: "a filter failed, so all brokers that policies allow were considered",
    Code.FILTER_IGNORED: "a filter would have removed every broker, so the filter was ignored",
    Code.ABOVE_AVERAGE: "its smoothed usage is above the mean by at least the threshold",
    Code.ABOVE_LIMIT: "its usage has reached the overload limit",
    Code.OTHERS_BELOW_LOWER_BOUNDARY: "it has the highest smoothed usage, and another broker is far below the mean",
    Code.FAR_ABOVE_LEAST: "it has the highest load, and the least loaded broker has far less",
    Code.GAP_LASTED: "the usage gap between it and its paired broker has lasted long enough",
    Code.FAR_ABOVE_DEVIATION: "its load is above the mean by too many standard deviations",
    Code.HEAVIEST_BUNDLE: "it is the heaviest remaining bundle of a broker that has to shed load",
    Code.FITTING_BUNDLE: "it is the heaviest remaining bundle that fits into the load to shed",
    Code.ABOVE_BAND: "its predicted usage is above the reachable usage by more than the band",
    Code.GIVES_TOO: "it is near the upper edge of the band, and sheds as well because another broker is above the band",
    Code.FILLS_ANOTHER: "it has the most load to give to another broker, which is far below the reachable usage",
    Code.TAKES_IN_EXCHANGE: "it takes a heavier bundle from another broker and gives a lighter one in exchange",
    Code.TOO_MANY_IDLE: "it has far more bundles without load than the other brokers",
    Code.LEAST_DISTURBING: "moving it relieves its broker most for the disturbance, and the destination has room",
    Code.EVENS_OUT: "a move of one of its bundles evens out the brokers, and has been worth its price for a round",
    Code.WORTH_ITS_PRICE: "of the moves of its broker it gains most, and that has lasted long enough for its price",
    Code.SPREAD_TOO_WIDE: "it has the highest usage, and the usages of the brokers differ too much",
    Code.FITTING_TOP_BUNDLE: "it is its broker's next top bundle, lightest first, and carries no more than may leave",
    Code.EXCHANGED: "it carries more than may leave, but the destination gives bundles back in exchange",
    Code.GIVEN_IN_EXCHANGE: "it is moved in exchange for a heavier bundle",
    Code.WITHIN_THRESHOLD: "its smoothed usage does not exceed the mean by the threshold",
    Code.BELOW_LIMIT: "its usage does not exceed the overload limit",
    Code.BELOW_MINIMUM_THROUGHPUT: "the load to shed is too small, so nothing moves",
    Code.TOO_FEW_BUNDLES: "it has fewer than two bundles, and the last one always stays, so only a split helps",
    Code.NO_SHEDDABLE_BUNDLE: "each of its bundles is bound to it, was just moved, has no load data or does not fit",
    Code.DIFFERENCE_TOLERATED: "the load difference to the broker it is compared with is within the threshold",
    Code.NOT_THE_GREATEST: "another broker has the highest load",
    Code.LESSER_OF_PAIR: "it is the less loaded broker of its pair",
    Code.MIDDLE_BROKER: "it is in the middle of the usage order, so it is not paired with another broker",
    Code.GAP_TOO_NEW: "the usage gap between it and its paired broker has not lasted long enough",
    Code.DEVIATION_TOLERATED: "its load is within the tolerated number of standard deviations of the mean",
    Code.WITHIN_BAND: "its predicted usage is above the reachable usage by no more than the band",
    Code.MAY_NOT_LAST: "only one of two estimates puts its predicted usage above the band, so the load may not last",
    Code.GAINS_TOO_LITTLE: "moving it gains less",
    Code.NO_GAIN: "it is above the band, but moving one of its bundles would even out the brokers too little",
    Code.GAIN_TOO_NEW: "its best move would gain something, but that has not lasted long enough for its price",
    Code.TOO_LITTLE_KNOWN: "there is not yet enough data about it, or about its new bundles, to decide",
    Code.OUTDATED_LOAD_DATA: "its load data is too old",
    Code.NO_TOP_BUNDLES: "the list of its top bundles is unknown",
    Code.NOTHING_FITS: "its top bundles carry more than may leave, so smaller bundles or a longer list would help",
    Code.ROUND_FULL: "this round already unloads the maximum number of bundles, so more wait for the next round",
    Code.BUDGET_USED: "the budget of moves of an hour allows no more now, so more wait for the next rounds",
    Code.ENOUGH_BROKERS_SHED: "the maximum number of brokers already shed load in this cycle",
    Code.NO_LOAD: "no broker has any load",
    Code.BALANCED: "no broker has to shed load",
    Code.CONDITION_TOO_NEW: "brokers have not been out of balance for enough cycles in a row",
    Code.COOLING_DOWN: "the load of a broker was measured too soon after bundles left it",
    Code.NO_BROKERS: "no broker has reported its load",
    Code.DISABLED: "this function is switched off",
    Code.TOO_FEW_BROKERS: "there are fewer than two brokers",
    Code.EXCLUDED_NAMESPACE: "its namespace is excluded from shedding",
    Code.POLICIES_FORBID: "policies allow no other broker to serve it",
    Code.ANTI_AFFINITY_FORBIDS: "every allowed broker has the same number of namespaces of its anti-affinity group",
    Code.NO_DESTINATION: "no other broker can take it",
    Code.SAME_BROKER: "the best destination is its current broker",
    Code.NONE_COMFORTABLE: "no broker that may serve it is below the comfort level",
    Code.RECENTLY_UNLOADED: "it was unloaded a short while ago",
    Code.NO_OWNER: "its owner is unknown",
    Code.DESTINATION_REFUSES: "policies or filters do not allow it on the planned destination",
    Code.DOES_NOT_FIT: "it carries more than may still leave, and the destination has no bundles to exchange for it",
    Code.LAST_TOP_BUNDLE: "it is the last of its broker's top bundles, and the last one always stays",
    Code.CARRIES_NOTHING: "it has no traffic, so moving it changes the load of no broker",
    Code.GAIN_IS_GONE: "by reports that came after the decision, its move would gain too little",
    Code.FAILED: "the operation failed",
    Code.BUNDLE_TOO_LARGE: "it exceeds a limit for bundles",
    Code.NAMESPACE_FULL: "its namespace already has the maximum number of bundles",
    Code.FEWER_THAN_TWO_TOPICS: "it has fewer than two topics, so a split cannot divide its load",
    Code.RANGE_NOT_DIVISIBLE: "its hash range cannot be divided",
    Code.BUNDLE_GONE: "it is no longer a bundle of its namespace",
    Code.NOT_OWNED: "the broker that reports it does not own it",
    Code.TOO_FEW_HITS: "it has not exceeded a limit in enough runs in a row",
    Code.PARENT_SPLITTING: "its parent bundle is still being split",
    Code.NOT_ONE_BOUNDARY: "the split algorithm did not return exactly one boundary",
    Code.CYCLE_FULL: "this run already splits the maximum number of bundles",
    Code.CHOSEN_BY_STRATEGY: "the placement strategy chose it",
    Code.SHEDS_BY_STRATEGY: "the shedding strategy lets it shed load",
    Code.MOVES_BY_STRATEGY: "the shedding strategy chose it",
    Code.KEPT_BY_STRATEGY: "the shedding strategy lets it shed nothing",
    Code.ADMIN: "an administrator requested it",
    Code.BROKER_LEAVES: "its broker was asked to leave the cluster and hands it over",
    Code.FIRST_LEADER: "it became leader, and no broker was leader before",
    Code.LEADER_RELEASED: "it became leader because the previous leader stopped and gave up the role",
    Code.LEADER_GONE: "it became leader because the session of the previous leader ended",
    Code.LEADS_AGAIN: "it is leader again, in a new term, because its session ended or it lost the metadata store",
}


def render(reason: Reason) -> str:
    """Return `reason` as one sentence with its numbers, alternatives, settings and causes.

    A cause does not repeat the strategy and settings of the reason before it.
    """
    return _sentence(reason, "", ())


def _sentence(reason: Reason, strategy_before: str, settings_before: tuple[str, ...]) -> str:
    """Return the sentence of a reason. It does not repeat `strategy_before` and `settings_before`, which the previous
    sentence has named.
    """
    head = f"{reason.subject}: " if reason.subject else ""
    parts = [head + _SENTENCES[reason.code]]
    if reason.compared:
        parts.append(f" ({', '.join(map(_comparison, reason.compared))})")
    if reason.detail:
        parts.append(f": {reason.detail}")
    if reason.alternatives:
        parts.append("; not chosen: " + ", ".join(map(_alternative, reason.alternatives)))
        if reason.more_alternatives:
            parts.append(f" and {reason.more_alternatives} more")
    if reason.strategy and reason.strategy != strategy_before:
        parts.append(f" [{reason.strategy}]")
    if reason.upon:
        parts.append(f"; based on {reason.upon}")
    if reason.flags:
        parts.append(f"; problems of the data: {', '.join(reason.flags)}")
    if reason.settings and reason.settings != settings_before:
        parts.append(f"; {SETTINGS_MARK}{', '.join(reason.settings)}")
    if reason.cause is not None:
        parts.append(f"; because {_sentence(reason.cause, reason.strategy, reason.settings)}")
    return "".join(parts)


_DIGITS_OF_CLOSE: Final = 6
_ONE_OF: Final = {"topics": "topic", "sessions": "session", "bundles": "bundle", "brokers": "broker"}
_SUM: Final = (" + ", " - ")


def _comparison(compared: Compared) -> str:
    # "bundles 3 > maximum 2" needs no unit
    unit = "" if compared.unit in _ONE_OF and compared.unit in compared.what.split() else compared.unit
    value, limit = format_figure(compared.value, unit), format_figure(compared.limit, unit)
    if value == limit and compared.value != compared.limit:  # readers must see the difference that decided
        value = format_figure(compared.value, unit, digits=_DIGITS_OF_CLOSE)
        limit = format_figure(compared.limit, unit, digits=_DIGITS_OF_CLOSE)
    # "mean + threshold 30 %" could be read as a threshold of 30 %
    equals = " =" if any(sign in compared.against for sign in _SUM) else ""
    return f"{compared.what} {value} {compared.relation} {compared.against}{equals} {limit}"


def _alternative(alternative: Alternative) -> str:
    text = _SENTENCES[alternative.code]
    if alternative.compared is not None:
        text += f", {_comparison(alternative.compared)}"
    return f"{alternative.name} ({text})"


def format_figure(value: float, unit: str, *, digits: int = 3) -> str:
    """Return a number as text for a sentence: a fraction of unit "%" as percent, large bytes/s as KiB/s or MiB/s.

    The text has `digits` significant digits; values of 1 % and more, KiB/s and MiB/s have one digit more. Digits before
    the decimal point are never dropped. "topics", "sessions", "bundles" and "brokers" become singular for 1.
    """
    if not math.isfinite(value):
        return str(value)
    if unit == "%":
        return f"{_rounded(value * 100, digits + (abs(value) >= 0.01))} %"
    if unit == "bytes/s" and abs(value) >= 1_048_576:
        return f"{_rounded(value / 1_048_576, digits + 1)} MiB/s"
    if unit == "bytes/s" and abs(value) >= 1024:
        return f"{_rounded(value / 1024, digits + 1)} KiB/s"
    number = _rounded(value, digits)
    return f"{number} {_ONE_OF.get(unit, unit) if number == '1' else unit}".rstrip()


def _rounded(value: float, digits: int) -> str:
    whole = value == int(value) or abs(round(value)) >= 10**digits
    return f"{value:.0f}" if whole and abs(value) < 1e15 else f"{value:.{digits}g}"
