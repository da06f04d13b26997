"""Which parts of a cluster an examination reads."""

from dataclasses import replace

import pytest

from pulsar_barycenter.questions.examination import Asked, _with_bookies
from support.doctor_pictures import healthy, store


@pytest.mark.parametrize(
    ("identity", "are_read"),
    [("bookkeeper:uuid:cluster", True), ("bookkeeper-pulsar:uuid:cluster", True), ("1e" * 16, False)],
)
async def test_bookies_are_read_if_the_brokers_keep_messages_there(identity: str, are_read: bool) -> None:
    picture = replace(healthy(), store=store(ledgers_folder=identity))
    found = await _with_bookies(picture, Asked((), store="nothing-of-this-kind:"))
    assert (found.bookies is not None) == are_read
