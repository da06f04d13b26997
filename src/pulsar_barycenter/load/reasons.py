"""Why something was decided, as a value: what was compared with what, what else was possible, what would change it.

Every assignment, unload, split, refusal and "do nothing" carries a `Reason`. Strategies keep figures as columns and
build reasons on demand; `render` is the one place that makes a sentence of one.
"""

import math
from collections.abc import Iterable
from enum import StrEnum
from itertools import repeat
from typing import Final

import msgspec

MAX_ALTERNATIVES: Final = 16
"""How many alternatives a reason names; `more_alternatives` counts the rest."""


class Code(StrEnum):
    """What a reason says; the value is what logs and JSON show."""

    # a broker was chosen
    PREALLOCATED = "preallocated"
    LEAST_LONG_TERM_RATE = "least_long_term_rate"
    ALL_OVERLOADED = "all_overloaded"
    CHOSEN_AGAIN = "chosen_again"
    NEXT_IN_TURN = "next_in_turn"
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
    # a broker was not
    TOO_MANY_TOPICS = "too_many_topics"
    NOT_FEWEST_BUNDLES = "not_fewest_bundles"
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
    # a filter did not filter
    FILTER_FAILED = "filter_failed"
    FILTER_IGNORED = "filter_ignored"
    # a broker sheds
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
    SPREAD_TOO_WIDE = "spread_too_wide"
    FITTING_TOP_BUNDLE = "fitting_top_bundle"
    EXCHANGED = "exchanged"
    GIVEN_IN_EXCHANGE = "given_in_exchange"
    # a broker does not
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
    TOO_LITTLE_KNOWN = "too_little_known"
    OUTDATED_LOAD_DATA = "outdated_load_data"
    NO_TOP_BUNDLES = "no_top_bundles"
    NOTHING_FITS = "nothing_fits"
    ROUND_FULL = "round_full"
    ENOUGH_BROKERS_SHED = "enough_brokers_shed"
    # nothing is shed at all
    NO_LOAD = "no_load"
    BALANCED = "balanced"
    CONDITION_TOO_NEW = "condition_too_new"
    COOLING_DOWN = "cooling_down"
    NO_BROKERS = "no_brokers"
    DISABLED = "disabled"
    TOO_FEW_BROKERS = "too_few_brokers"
    # a planned unload is not carried out
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
    # on request
    ADMIN = "admin"
    BROKER_LEAVES = "broker_leaves"
    # a broker leads
    FIRST_LEADER = "first_leader"
    LEADER_RELEASED = "leader_released"
    LEADER_GONE = "leader_gone"
    LEADS_AGAIN = "leads_again"


class Compared(msgspec.Struct, frozen=True, gc=False):
    """One comparison that held: `what` (value) `relation` `against` (limit), both in `unit`.

    Units: "%" (the numbers are fractions), "msg/s", "bytes/s", "topics", "sessions", "bundles", "brokers", "".
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
    """Return the comparison of each figure with one limit."""
    return list(map(Compared, repeat(what), figures, repeat(relation), repeat(against), repeat(limit), repeat(unit)))


class Alternative(msgspec.Struct, frozen=True, gc=False):
    """What else might have been chosen, why it was not, and by which comparison."""

    name: str
    code: Code
    compared: Compared | None = None


class Reason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Why. `settings` are the configuration keys that would change the answer; `flags` name doubtful input data.

    `upon` says which figures were compared, where they could have been others.
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
    """Return the last cause of a reason: itself, if it names none."""
    while reason.cause is not None:
        reason = reason.cause
    return reason


_SENTENCES: Final[dict[Code, str]] = {
    Code.PREALLOCATED: "it was assigned there a moment ago",
    Code.LEAST_LONG_TERM_RATE: "it has the least long-term message rate of the candidates",
    Code.ALL_OVERLOADED: "every candidate is overloaded, so one was drawn at random",
    Code.CHOSEN_AGAIN: "the first choice was overloaded, so all brokers that policies allow were considered",
    Code.NEXT_IN_TURN: "it was its turn",
    Code.BELOW_AVERAGE: "its smoothed usage is below the mean by the threshold or more",
    Code.NONE_BELOW_AVERAGE: "no candidate's smoothed usage is far enough below the mean, so one was drawn at random",
    Code.PINNED: "it was chosen for this bundle before and is still a candidate",
    Code.PLANNED: "the shedding plan names it, and it is a candidate",
    Code.PLANNED_IS_OVERLOADED: "the broker that the shedding plan names is overloaded, so one that is not was drawn",
    Code.PLANNED_IS_GONE: "the broker that the shedding plan names is no candidate, so another one was drawn",
    Code.DRAWN: "it was drawn at random",
    Code.LEAST_PREDICTED: "its predicted usage is the least of the candidates",
    Code.LEAST_LOADED: "it is the least loaded of the candidates that are not idle",
    Code.LEAST_MESSAGE_RATE: "it has the least message rate of the candidates that are not idle",
    Code.IDLE_BROKER: "it is idle, and no other candidate is underloaded",
    Code.MOST_ROOM: "every candidate is overloaded, and it has room for the most bundles",
    Code.ALL_FULL: "every candidate is full, and it was its turn",
    Code.WEIGHTED_DRAW: "it was drawn at random, weighted by the room it has",
    Code.NO_ROOM_LEFT: "no candidate has any room left, so one was drawn at random",
    Code.NO_CANDIDATE: "no broker qualifies",
    Code.TOO_MANY_TOPICS: "it has too many topics",
    Code.NOT_FEWEST_BUNDLES: "others have fewer bundles of the namespace",
    Code.OTHER_LOAD_MANAGER: "it runs another load manager",
    Code.OLDER_VERSION: "it runs an older version",
    Code.TOPIC_KIND_DISABLED: "it does not serve this kind of topics",
    Code.NOT_IN_ISOLATION_POLICY: "the namespace's isolation policy does not name it",
    Code.SECONDARY_IN_RESERVE: "it is a secondary broker, and enough primary ones are there",
    Code.KEPT_FOR_OTHERS: "an isolation policy keeps it for other namespaces",
    Code.ID_WITHOUT_PORT: "its id is not of the form host:port, so no policy can be held against it",
    Code.DRAINED: "it is drained, and others may serve",
    Code.GROUP_IN_DOMAIN: "its failure domain has more namespaces of the anti-affinity group than another",
    Code.GROUP_ON_BROKER: "it has more namespaces of the anti-affinity group than another",
    Code.OVERLOADED: "it is overloaded",
    Code.HIGHER_RATE: "it has a higher long-term message rate",
    Code.NOT_BELOW_AVERAGE: "its smoothed usage is not far enough below the mean",
    Code.EQUAL: "it was equally good and lost the draw",
    Code.MORE_LOADED: "it is more loaded, or equally loaded and later in line",
    Code.KEPT_IDLE: "it is idle, and stays so while another candidate is underloaded",
    Code.ANOTHER_IDLE: "it is idle, too, and later in line",
    Code.LESS_ROOM: "it has room for fewer bundles, or for as many and is later in line",
    Code.NOT_ITS_TURN: "it was not its turn",
    Code.NOT_DRAWN: "it was not drawn",
    Code.NOT_LIVE: "it is no longer registered",
    Code.NO_LOAD_DATA: "nothing is known of its load",
    Code.FILTER_FAILED: "a filter could not judge the candidates, so all that policies allow came back",
    Code.FILTER_IGNORED: "a filter would have left no broker, so it was ignored",
    Code.ABOVE_AVERAGE: "its smoothed usage is above the mean by the threshold or more",
    Code.ABOVE_LIMIT: "its usage reached the overload limit",
    Code.OTHERS_BELOW_LOWER_BOUNDARY: "it carries the most while another broker lies below the lower boundary",
    Code.FAR_ABOVE_LEAST: "it carries the most, and the least loaded broker too much less",
    Code.GAP_LASTED: "the gap between it and the broker it is paired with lasted long enough",
    Code.FAR_ABOVE_DEVIATION: "it lies above the mean by too many standard deviations",
    Code.HEAVIEST_BUNDLE: "it is the heaviest bundle left on a broker that has to give load away",
    Code.FITTING_BUNDLE: "it is the heaviest bundle left that fits into what has to leave",
    Code.ABOVE_BAND: "its predicted usage is above what can be reached by more than the band",
    Code.GIVES_TOO: "it lies near the edge of the band and gives, too, since another one is out of it",
    Code.FILLS_ANOTHER: "it has the most to give to a broker that lies far below what can be reached",
    Code.TAKES_IN_EXCHANGE: "it takes a heavier bundle of another broker, and gives a lighter one in exchange",
    Code.TOO_MANY_IDLE: "it holds far more bundles without load than the others",
    Code.LEAST_DISTURBING: "of its broker's bundles it relieves most for what moving it disturbs, and fits there",
    Code.SPREAD_TOO_WIDE: "it carries the most, and the usages of brokers are spread too widely",
    Code.FITTING_TOP_BUNDLE: "it is the next of its broker's top bundles, lightest first, and fits into what may leave",
    Code.EXCHANGED: "it is too much for what may leave, but bundles of the destination make up for it",
    Code.GIVEN_IN_EXCHANGE: "it is given in exchange for a heavier bundle",
    Code.WITHIN_THRESHOLD: "its smoothed usage is within the threshold of the mean",
    Code.BELOW_LIMIT: "its usage is below the overload limit",
    Code.BELOW_MINIMUM_THROUGHPUT: "the excess is not worth a move",
    Code.TOO_FEW_BUNDLES: "it has fewer than two bundles, and the last one stays; a hot one can only be split",
    Code.NO_SHEDDABLE_BUNDLE: "none of its bundles may move now (system, just moved, or without figures)",
    Code.DIFFERENCE_TOLERATED: "the difference to the least loaded broker is within the threshold",
    Code.NOT_THE_GREATEST: "another broker carries the most",
    Code.LESSER_OF_PAIR: "it is the less loaded one of its pair",
    Code.MIDDLE_BROKER: "it stands in the middle of the brokers, and is paired with none",
    Code.GAP_TOO_NEW: "the gap between it and the broker it is paired with has not lasted long enough",
    Code.DEVIATION_TOLERATED: "it lies within the tolerated number of standard deviations of the mean",
    Code.WITHIN_BAND: "its predicted usage is within the band around what can be reached",
    Code.MAY_NOT_LAST: "its predicted usage is above the band by one estimate only, so it may not last",
    Code.TOO_LITTLE_KNOWN: "too little is known yet of it, or of its new bundles, to rely upon",
    Code.OUTDATED_LOAD_DATA: "its load data are too old",
    Code.NO_TOP_BUNDLES: "no list of its top bundles is known",
    Code.NOTHING_FITS: "none of its top bundles fits into what may leave; smaller ones or a longer list would help",
    Code.ROUND_FULL: "as many bundles leave as one round unloads, and more wait for the next",
    Code.ENOUGH_BROKERS_SHED: "as many other brokers shed as may in one cycle",
    Code.NO_LOAD: "no broker has any load",
    Code.BALANCED: "no broker has to give anything away",
    Code.CONDITION_TOO_NEW: "brokers have not been out of balance for enough cycles in a row",
    Code.COOLING_DOWN: "a broker's load was measured too soon after bundles left it",
    Code.NO_BROKERS: "no broker has reported its load",
    Code.DISABLED: "it is switched off",
    Code.TOO_FEW_BROKERS: "there are fewer than two brokers",
    Code.EXCLUDED_NAMESPACE: "its namespace is excluded from shedding",
    Code.POLICIES_FORBID: "no other broker is allowed to serve it",
    Code.ANTI_AFFINITY_FORBIDS: "every broker that policies allow has as many namespaces of its anti-affinity group",
    Code.NO_DESTINATION: "no broker would take it",
    Code.SAME_BROKER: "the best destination is the broker it is on",
    Code.NONE_COMFORTABLE: "no broker that may serve it is below the comfort level",
    Code.RECENTLY_UNLOADED: "it was unloaded a short while ago",
    Code.NO_OWNER: "its owner is not known",
    Code.DESTINATION_REFUSES: "the broker that it would go to may not serve it",
    Code.DOES_NOT_FIT: "it is more than what may still leave, and no bundles of the destination make up for it",
    Code.LAST_TOP_BUNDLE: "it is the last of its broker's top bundles, and stays",
    Code.CARRIES_NOTHING: "it carries nothing, so that moving it would relieve nobody",
    Code.FAILED: "carrying it out failed",
    Code.BUNDLE_TOO_LARGE: "it is too large",
    Code.NAMESPACE_FULL: "its namespace has as many bundles as it may have",
    Code.FEWER_THAN_TWO_TOPICS: "it has fewer than two topics, which a split cannot part",
    Code.RANGE_NOT_DIVISIBLE: "its hash range cannot be divided",
    Code.BUNDLE_GONE: "it is no longer a bundle of its namespace",
    Code.NOT_OWNED: "the broker that reports it does not own it",
    Code.TOO_FEW_HITS: "it has not been too large often enough in a row",
    Code.PARENT_SPLITTING: "the bundle it comes from is still being split",
    Code.NOT_ONE_BOUNDARY: "the split algorithm did not name exactly one boundary",
    Code.CYCLE_FULL: "as many other bundles are split as one run may split",
    Code.ADMIN: "an administrator asked for it",
    Code.BROKER_LEAVES: "its broker leaves the cluster, as it was asked to, and hands it over",
    Code.FIRST_LEADER: "it leads, and no broker did before",
    Code.LEADER_RELEASED: "it leads, as the leader before gave it up to stop",
    Code.LEADER_GONE: "it leads, as the session of the leader before ended",
    Code.LEADS_AGAIN: "it leads on in another term, as its session ended or it lost touch with the metadata store",
}


def render(reason: Reason) -> str:
    """Return `reason` as one sentence, with the numbers, the alternatives and the settings that would change it.

    A strategy and settings that a cause shares with what it causes are told once.
    """
    return _sentence(reason, "", ())


def _sentence(reason: Reason, told_strategy: str, told_settings: tuple[str, ...]) -> str:
    """Return the sentence of a reason whose effect has told of this strategy and these settings already."""
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
    if reason.strategy and reason.strategy != told_strategy:
        parts.append(f" [{reason.strategy}]")
    if reason.upon:
        parts.append(f"; upon {reason.upon}")
    if reason.flags:
        parts.append(f"; doubtful data: {', '.join(reason.flags)}")
    if reason.settings and reason.settings != told_settings:
        parts.append(f"; set by {', '.join(reason.settings)}")
    if reason.cause is not None:
        parts.append(f"; because {_sentence(reason.cause, reason.strategy, reason.settings)}")
    return "".join(parts)


_DIGITS_OF_CLOSE: Final = 6
_ONE_OF: Final = {"topics": "topic", "sessions": "session", "bundles": "bundle", "brokers": "broker"}


def _comparison(compared: Compared) -> str:
    value, limit = format_figure(compared.value, compared.unit), format_figure(compared.limit, compared.unit)
    if value == limit and compared.value != compared.limit:  # what decided must be seen
        value = format_figure(compared.value, compared.unit, digits=_DIGITS_OF_CLOSE)
        limit = format_figure(compared.limit, compared.unit, digits=_DIGITS_OF_CLOSE)
    return f"{compared.what} {value} {compared.relation} {compared.against} {limit}"


def _alternative(alternative: Alternative) -> str:
    text = _SENTENCES[alternative.code]
    if alternative.compared is not None:
        text += f", {_comparison(alternative.compared)}"
    return f"{alternative.name} ({text})"


def format_figure(value: float, unit: str, *, digits: int = 3) -> str:
    """Return a number a person can read: a fraction of unit "%" as percent, bytes/s as KiB/s or MiB/s when large.

    It has `digits` significant digits, percents from 1 on and sizes one more; no digit before the point is dropped.
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
