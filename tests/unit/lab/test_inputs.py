"""What the input of a replay is, by the paths that a user gives."""

import pytest

from pulsar_barycenter.lab.advising.reality import Reality, reality_of
from pulsar_barycenter.lab.inputs import InputKind, InputSpec

KINDS = {
    "generated": InputKind.SYNTHETIC,
    "day.csv": InputKind.TRACES,
    "workload.yaml": InputKind.WORKLOAD,
    "workload.yml": InputKind.WORKLOAD,
    "data": InputKind.FOLDER,
}


@pytest.mark.parametrize(("path", "kind"), KINDS.items())
def test_the_first_path_says_what_the_input_is(path: str, kind: InputKind) -> None:
    spec = InputSpec(paths=(path,))
    assert spec.kind is kind
    if kind is not InputKind.FOLDER:
        assert reality_of(spec) == Reality(), "only a data folder has what really happened"
