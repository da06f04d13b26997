"""The options of `format("pulsar")`: their meaning, and that an error is reported before any connection."""

import re

import pytest

from pulsar_barycenter.pipeline.pulsar_source.options import (
    Earliest,
    Latest,
    OptionError,
    Place,
    Places,
    Since,
    SourceOptions,
    parse_options,
)
from pulsar_barycenter.pipeline.pulsar_source.positions import Position

BASE = {"service.url": "pulsar://localhost:6650", "topic": "orders"}
ORDERS = "persistent://public/default/orders"


def parse(**options: str) -> SourceOptions:
    """Options by name with `_` for the dot."""
    return parse_options(BASE | {name.replace("_", "."): value for name, value in options.items()})


def test_what_is_left_out_has_its_default() -> None:
    options = parse()
    assert options.topics == (ORDERS,)
    assert (options.starting, options.ending) == (None, Places(Latest()))
    assert (options.max_messages_per_trigger, options.fail_on_data_loss) == (None, True)
    assert options.service.auth_plugin is None


def test_case_does_not_matter_in_names() -> None:
    upper = parse_options({name.upper(): value for name, value in (BASE | {"maxMessagesPerTrigger": "7"}).items()})
    assert upper == parse(maxMessagesPerTrigger="7")
    assert upper.max_messages_per_trigger == 7


def test_topics_are_a_list_of_full_or_short_names() -> None:
    options = parse_options({"service.url": BASE["service.url"], "topics": "b, t/n/a ,persistent://public/default/b"})
    assert options.topics == ("persistent://public/default/b", "persistent://t/n/a")


@pytest.mark.parametrize(
    ("text", "namespace", "local_name"),
    [
        ("orders-.*", "public/default", "orders-.*"),
        ("persistent://shop/eu/orders-[0-9]+", "shop/eu", "orders-[0-9]+"),
        ("shop/eu/.*", "shop/eu", ".*"),
    ],
)
def test_a_pattern_is_an_expression_in_one_namespace(text: str, namespace: str, local_name: str) -> None:
    options = parse_options(
        {"service.url": BASE["service.url"], "topicsPattern": text, "admin.url": "http://localhost:8080/"}
    )
    assert options.pattern is not None
    assert (options.pattern.namespace, options.pattern.local_name) == (namespace, local_name)
    assert options.pattern.admin_url == "http://localhost:8080"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", Earliest()),
        ("LATEST", Latest()),
        ("1700000000123", Since(1_700_000_000_123)),
        ("2023-11-14T22:13:20.123Z", Since(1_700_000_000_123)),
        ("2023-11-15T00:13:20.123+02:00", Since(1_700_000_000_123)),
    ],
)
def test_reading_begins_at_an_end_or_a_time(text: str, place: Place) -> None:
    assert parse(startingOffsets=text).starting == Places(place)


def test_json_places_each_topic_and_partitions_by_their_topic_unless_named() -> None:
    text = """{
        "orders": "latest",
        "orders-partition-1": {"ledger": 3, "entry": 4, "batch_index": 5},
        "persistent://public/default/bills": {"ledger": -1, "entry": -1}
    }"""
    starting = parse(startingOffsets=text).starting
    assert starting is not None
    assert starting.of(f"{ORDERS}-partition-0") == Latest()
    assert starting.of(f"{ORDERS}-partition-1") == Position(3, 4, 5)
    assert starting.of("persistent://public/default/bills") == Earliest()
    assert starting.of("persistent://public/default/others") == Earliest()
    ending = parse(endingOffsets='{"orders": {"ledger": 3, "entry": 4}}').ending
    assert (ending.of(ORDERS), ending.of("persistent://public/default/others")) == (Position(3, 4), Latest())


MISTAKES = [
    ({"service.url": ""}, "option service.url: the option is missing"),
    ({"service.url": "http://localhost"}, "the URL must begin with pulsar:// or pulsar+ssl:// and a host"),
    ({"topic": ""}, "exactly one of these options must be set; 0 are set"),
    ({"topics": "a,b"}, "exactly one of these options must be set; 2 are set"),
    ({"topic": "a/b"}, "option topic: Invalid short topic name"),
    ({"topic": "non-persistent://a/b/c"}, "does not store messages"),
    ({"topic": "", "topics": " , "}, "option topics: the value names no topic"),
    ({"topic": "", "topics": "a,a-partition-1"}, "leave out the partition or"),
    ({"topic": "", "topicsPattern": "a.*"}, "option admin.url: the option topicsPattern needs"),
    ({"topic": "", "topicsPattern": "a(", "admin.url": "http://h:1"}, "is not a regular expression"),
    (
        {"topic": "", "topicsPattern": "persistent://a/b", "admin.url": "http://h:1"},
        "the pattern must have the form persistent://",
    ),
    ({"topic": "", "topicsPattern": "a", "admin.url": "h:1"}, "option admin.url: the URL must begin with http"),
    ({"startingOffsets": "soon"}, 'option startingOffsets: the value must be "earliest", "latest", a time'),
    ({"startingOffsets": "2023-11-14T22:13:20"}, "has no offset from UTC"),
    ({"startingOffsets": "{"}, "the value is not valid JSON"),
    ({"startingOffsets": '{"a": 1}'}, "a position is"),
    ({"startingOffsets": '{"a": {"ledger": 1}}'}, "a position is"),
    ({"startingOffsets": '{"a": {"ledger": 1, "entry": "2"}}'}, "are integers"),
    ({"endingOffsets": "earliest"}, "option endingOffsets"),
    ({"endingOffsets": '{"a": "1700000000123"}'}, "option endingOffsets"),
    ({"maxMessagesPerTrigger": "0"}, "option maxMessagesPerTrigger: the value must be an integer of at least 1"),
    ({"pollTimeoutMs": "1.5"}, "option pollTimeoutMs: the value must be an integer of at least 1"),
    ({"failOnDataLoss": "no"}, "option failOnDataLoss: the value must be true or false"),
    ({"pulsar.client.authParams": "token:x"}, "this option needs pulsar.client.authPluginClassName"),
    ({"startingOffset": "latest"}, "option startingoffset: this option does not exist; the options are service.url"),
]


@pytest.mark.parametrize(("options", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_a_mistake_is_told_with_the_option_and_what_it_should_be(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=re.escape(words)):
        parse_options(BASE | options)
