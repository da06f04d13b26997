"""Each row of the route table is complete, and nothing answers a request that is not in the table."""

import inspect
import re
from typing import Any

from pulsar_barycenter.admin.routes.rights import Right
from pulsar_barycenter.admin.routes.route import LARGEST_EXACT
from pulsar_barycenter.admin.routes.table import BY_PATH, GROUPS, ROUTES
from pulsar_barycenter.broker.rest.app import HANDLERS
from pulsar_barycenter.broker.rest.bodies import BODIES, body_type
from pulsar_barycenter.broker.rest.rights import holders_of
from pulsar_barycenter.metadata.coordination.epochs import MAX_EPOCH


def answers_requests(method: Any) -> bool:
    """Whether a public method of a class of handlers has the shape of a handler: request in, response out."""
    if not inspect.iscoroutinefunction(method) or method.__name__.startswith("_"):
        return False
    return list(inspect.signature(method).parameters) == ["self", "request"]


def test_every_row_has_a_handler_and_every_handler_a_row() -> None:
    handlers = {
        (each.__name__, name)
        for each in HANDLERS
        for name, method in inspect.getmembers(each, inspect.isfunction)
        if answers_requests(method)
    }
    assert handlers == {(row.group, row.handler) for row in ROUTES}
    assert sorted(group.name for group in GROUPS) == sorted(each.__name__ for each in HANDLERS)


def test_every_row_has_a_right_and_a_line_of_the_reference_page() -> None:
    for row in ROUTES:
        assert isinstance(row.right, Right), row
        assert holders_of(row.right) is not None, row
        assert re.fullmatch(r"[A-Z].*\.", row.summary), row
        assert "|" not in row.summary, row


def test_a_method_and_a_path_have_one_row() -> None:
    assert len(BY_PATH) == len(ROUTES)


def test_every_named_body_is_known_and_used() -> None:
    assert {row.body for row in ROUTES if isinstance(row.body, str)} == set(BODIES)
    assert all(body_type(row) is not None for row in ROUTES if row.body is not None)


def test_a_reason_for_no_command_is_for_routes_of_administrators() -> None:
    for row in ROUTES:
        assert not row.without_command or row.path.startswith(("/admin/", "/lookup/")), row


def test_an_epoch_in_the_query_may_be_as_large_as_epochs_get() -> None:
    assert LARGEST_EXACT == MAX_EPOCH
