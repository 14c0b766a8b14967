"""A search that ends without a labeling: predict raises or warns, and never returns an empty list for a sequence."""

import numpy as np
import pytest

from rulefield import ChainCRF, JointCRF, SegmentCRF
from rulefield import rules as r
from rulefield.estimators.chain import answers as chains
from rulefield.estimators.joint import answers as joints
from rulefield.estimators.segments import answers as segments
from rulefield.exceptions import InfeasibleError
from rulefield.inference.result import Result, Status

X = [["a", "b", "c"], ["b", "c"], ["c", "a", "a", "b"]]
Y = [["A", "B", "B"], ["B", "B"], ["B", "A", "A", "B"]]
NOTHING = Result(np.zeros(0, np.int64), -np.inf, -np.inf, 10.0, Status.bounded, "auto", 1)
RULES = [r.count("A") <= 1]


def fitted(kind, on_infeasible):
    """A model, its rules, and where its engine is looked up."""
    if kind == "chain":
        return ChainCRF(max_iter=5, on_infeasible=on_infeasible).fit(X, Y), RULES, (chains, "decode")
    if kind == "segments":
        return SegmentCRF(max_iter=5, on_infeasible=on_infeasible).fit(X, Y), RULES, (segments, "decode")
    labels = [{"t": row, "u": row} for row in Y]
    crf = JointCRF(tasks=["t", "u"], max_iter=5, on_infeasible=on_infeasible).fit(X, labels)
    return crf, [r.count("A", task="t") <= 1], (joints, "decode_joint")


def nothing_found(engine):
    """The engine with its answer to the longest sequence of a call taken away."""

    def run(problem, *args, **how):
        found = engine(problem, *args, **how)
        if isinstance(found, list):
            return [NOTHING if len(result.labels) == 4 else result for result in found]
        return NOTHING if len(found.labels) == 4 else found

    return run


@pytest.mark.parametrize("kind", ["chain", "segments", "joint"])
def test_predict_raises_or_warns_where_no_labeling_was_found(monkeypatch, kind):
    crf, rules, (module, name) = fitted(kind, "raise")
    relaxing, _, _ = fitted(kind, "relax")
    expected = crf.predict(X[:2], rules=rules)
    monkeypatch.setattr(module, name, nothing_found(getattr(module, name)))
    if kind == "chain":
        quick = "_quick"  # small problems are settled in one compiled call
        monkeypatch.setattr(chains.ChainAnswers, quick, lambda _, batch, *others: [None] * len(batch))
    with pytest.raises(InfeasibleError, match="sequence 2: no labeling .* was found"):
        crf.predict(X, rules=rules)
    with pytest.warns(RuntimeWarning, match="sequence 2: no labeling .* was found"):
        found = relaxing.predict(X, rules=rules)
    rows = found if kind != "joint" else [row["t"] for row in found]
    assert [len(row) for row in rows] == [3, 2, 4]
    assert list(found)[:2] == list(expected)
    statuses = [labeling.status for labeling in crf.decode(X, rules=rules)] if kind != "chain" else ["bounded"]
    assert statuses[-1] == "bounded"
