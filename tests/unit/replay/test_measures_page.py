"""The page of measures lists all of them, under their names in the results."""

from pathlib import Path

import msgspec

from pulsar_barycenter.replay.measures import MEASURES, Measures

PAGE = (Path(__file__).parents[3] / "docs" / "measures.md").read_text()


def test_every_measure_has_its_formula_on_the_page() -> None:
    rows = [line.split("|") for line in PAGE.splitlines() if line.startswith("| ")]
    told = {row[2].strip().strip("`"): row[1].strip() for row in rows if row[2].strip().startswith("`")}
    keys = {field.name: field.encode_name for field in msgspec.structs.fields(Measures)}
    assert told == {keys[each.name]: each.title for each in MEASURES}
