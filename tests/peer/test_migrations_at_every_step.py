"""A migration of messages from files to bookies that ends at any of its writes, in the long form: at each of them."""

from pathlib import Path

import pytest

from support.migrated_cluster import ended_at, number_of_steps


@pytest.mark.full_form
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("is_carried_out", [True, False])
@pytest.mark.parametrize("moves_metadata", [False, True])
async def test_a_migration_that_ends_at_any_step_is_continued(
    tmp_path: Path, is_carried_out: bool, moves_metadata: bool
) -> None:
    for last in range(1, await number_of_steps(tmp_path / "all", moves_metadata=moves_metadata) + 1):
        await ended_at(tmp_path / str(last), last, is_carried_out=is_carried_out, moves_metadata=moves_metadata)
