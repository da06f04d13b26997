"""Messages of the extensible load manager's topics, as `pulsar-client consume` prints them."""

from pulsar_barycenter.load.snapshot.extensible_document import messages_in


def test_messages_are_found_among_other_lines_with_their_line() -> None:
    content = b"""a log line
----- got message -----
key:[a:1], properties:[], content:{"weightedMaxEMA":0.5}
"""
    assert list(messages_in(content)) == [("a:1", b'{"weightedMaxEMA":0.5}', 3)]
