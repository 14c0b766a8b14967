"""What a model file may hold: every kind of wrong array, type and value is refused, and nothing that is right."""

import warnings
from inspect import get_annotations
from typing import Any, Literal, TypedDict

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rulefield as rf
from oracles.contract_cases import CASES, MADE_OF_OTHERS, PARSER
from rulefield.estimators.saving import LISTS, TYPES
from rulefield.exceptions import ModelFileError
from rulefield.forms import Form, check_arrays, conforms, flags, index, pointers, sparse_matrix, weights
from rulefield.persistence import load_model, model_to_bytes

FORMS = {
    "pair_ptr": pointers("features", into="pairs"),
    "pair_label": index("pairs", below="labels", rows="pair_ptr"),
    "start": index("starts", below="labels", ascending=True),
    "allowed": flags("labels", "labels"),
    "theta": weights("pairs+starts"),
}


def arrays(**other):
    good = {
        "pair_ptr": np.array([0, 2, 2, 3], np.uint64),
        "pair_label": np.array([0, 2, 1], np.uint32),
        "start": np.array([0, 2], np.uint32),
        "allowed": np.ones((3, 3), bool),
        "theta": np.zeros(5),
    }
    return good | other


def test_good_arrays_give_their_sizes():
    sizes = check_arrays(arrays(), FORMS, {"labels": 3})
    assert sizes == {"labels": 3, "features": 3, "pairs": 3, "starts": 2}


BAD = {
    "type": {"theta": np.zeros(5, np.float32)},
    "axes": {"theta": np.zeros((5, 1))},
    "size": {"theta": np.zeros(4)},
    "labels": {"allowed": np.ones((2, 3), bool)},
    "first pointer": {"pair_ptr": np.array([1, 2, 2, 3], np.uint64)},
    "falling pointer": {"pair_ptr": np.array([0, 3, 2, 3], np.uint64)},
    "last pointer": {"pair_ptr": np.array([0, 2, 2, 4], np.uint64)},
    "no pointer": {"pair_ptr": np.zeros(0, np.uint64)},
    "label beyond": {"pair_label": np.array([0, 3, 1], np.uint32)},
    "labels of a row fall": {"pair_label": np.array([2, 0, 1], np.uint32)},
    "same label twice": {"start": np.array([1, 1], np.uint32)},
    "nan": {"theta": np.array([0, 0, 0, 0, np.nan])},
    "infinite": {"theta": np.array([0, 0, 0, 0, np.inf])},
    "huge": {"theta": np.array([0, 0, 0, 0, -1e200])},
    "neither true nor false": {"allowed": np.full((3, 3), 2, np.uint8).view(bool)},
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arrays_are_refused(case):
    (name,) = BAD[case]
    with pytest.raises(ModelFileError, match=f"the array '({name}|pair_label)'"):
        check_arrays(arrays(**BAD[case]), FORMS, {"labels": 3})


def test_a_missing_array_is_named():
    given = arrays()
    del given["theta"]
    with pytest.raises(ModelFileError, match="lacks the array 'theta'"):
        check_arrays(given, FORMS, {"labels": 3})


def test_signed_numbers_must_not_be_negative():
    form = {"move": Form(("int64",), ("moves",), below="states")}
    with pytest.raises(ModelFileError, match="points beyond"):
        check_arrays({"move": np.array([-1])}, form, {"states": 3})
    assert pointers("rows", into="entries").shape == ("rows+1",)


def test_sparse_matrices_are_checked_to_the_last_index():
    good = scipy.sparse.random_array((4, 5), density=0.5, format="csr", rng=np.random.default_rng(0))
    parts = {"data": good.data, "indices": good.indices, "indptr": good.indptr}
    assert (sparse_matrix(parts, (4, 5)) != good).nnz == 0
    for name, at, value in [("indices", 0, 5), ("indices", 0, -1), ("indptr", 1, 99), ("indptr", -1, 0)]:
        bad = parts[name].copy()
        bad[at] = value
        with pytest.raises(ModelFileError):
            sparse_matrix(parts | {name: bad}, (4, 5))


class Typed(TypedDict):
    a: int
    b: list[str]


@pytest.mark.parametrize(
    ("value", "hint", "good"),
    [
        (1, int, True), (True, int, False), (1, float, True), (True, float, False), ("a", str, True),
        (None, int | None, True), ("a", int | None, False), ([1, 2], list[int], True), ([1, "a"], list[int], False),
        (["a", 1], tuple[str, int], True), (["a"], tuple[str, int], False), ({"a": 1}, dict[str, int], True),
        ({"a": "1"}, dict[str, int], False), ("x", Literal["x", "y"], True), (1, Literal[True], False),
        ({"a": 1, "b": []}, Typed, True), ({"a": 1}, Typed, False), ({"a": 1, "b": [], "c": 0}, Typed, False),
        ([], Any, True), (np.zeros(1), np.ndarray, True),
    ],
)  # fmt: skip
def test_types(value, hint, good):
    assert conforms(value, hint) is good


@pytest.mark.parametrize("case", [*CASES, PARSER], ids=lambda case: case.name)
def test_every_fitted_attribute_in_a_file_has_a_type(case):
    declared = set().union(*map(get_annotations, case.cls.__mro__))
    assert set(case.cls._saved) <= set(TYPES) | set(LISTS) | declared


@pytest.mark.parametrize("case", [*CASES, PARSER], ids=lambda case: case.name)
def test_an_array_that_nothing_reads_is_refused(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind, good, metadata = load_model(case.make().fit(*case.data()).to_bytes())
    rf.load(model_to_bytes(kind, good, metadata))
    prefixes = {name.rpartition(".")[0] for name in good}
    for name in {f"{prefix}.extra" if prefix else "extra" for prefix in prefixes}:
        with pytest.raises(ModelFileError, match=r"an array '([\w.]+\.)?extra' that this model has no use for"):
            rf.load(model_to_bytes(kind, good | {name: np.zeros(2)}, metadata))


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("model", np.zeros(3)), ("model", np.zeros(3, np.uint8)), ("model", np.zeros((2, 2), np.uint8)), ("model", "graph"),
        ("tokenizer", None), ("tokenizer", {}), ("tokenizer", {"kind": "no"}), ("tokenizer", {"kind": "pattern"}),
        ("tokenizer", {"kind": "pattern", "pattern": "("}), ("tokenizer", {"kind": "words", "lower_split": "x", "y": 1}),
        ("given", 1), ("more", 1), ("labels_", [1]), ("labels_", None),
    ],
)  # fmt: skip
def test_an_altered_parser_is_refused(what, value):
    kind, arrays, metadata = load_model(PARSER.make().fit(*PARSER.data()).to_bytes())
    if what == "model":
        if isinstance(value, str):
            case = next(case for case in CASES if case.cls is rf.GraphCRF)
            value = np.frombuffer(case.make(max_iter=2000).fit(*case.data()).to_bytes(), np.uint8)
        arrays = arrays | {what: value}
    else:
        metadata["attributes" if what == "labels_" else "model"][what] = value
    with pytest.raises(ModelFileError):
        rf.load(model_to_bytes(kind, arrays, metadata))


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("MultiLabelCRF", ("attributes", "feature_names_in_"), {"$": "no"}),
        ("MultiLabelCRF", ("attributes", "_multilabel"), False),
        ("DocumentTagger", ("attributes", "classes_"), {}), ("DocumentTagger", ("attributes", "classes_"), ["head"]),
        ("RuledCRF", ("model", "given"), 7),
        ("GaussianCRFClassifier", ("attributes", "_labels", "values", "flat"), True),
        ("GaussianCRFRegressor", ("attributes", "_flat"), True),
    ],
)  # fmt: skip
def test_metadata_that_contradicts_the_rest_is_refused(name, place, value):
    """Each was once loaded, and made a method of the model fail."""
    kind, arrays, metadata = saved(next(case for case in [*CASES, *MADE_OF_OTHERS] if case.name == name))
    holder = metadata
    for key in place[:-1]:
        holder = holder[key]
    assert holder.get(place[-1]) != value
    holder[place[-1]] = value
    with pytest.raises(ModelFileError):
        rf.load(model_to_bytes(kind, arrays, metadata))


WITH_PREDICTORS = {
    "GraphCRF": {"predictors": {"token": [make_pipeline(StandardScaler(), LogisticRegression())]}},
    "MultiLabelCRF": {"predictors": [LogisticRegression()]},
    "GaussianCRFRegressor": {"predictors": [make_pipeline(StandardScaler(), LinearRegression())]},
}


def saved(case, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_model(case.make(**params).fit(*case.data()).to_bytes())


def beyond(array):
    """The array with its last value where none may be."""
    bad = array.copy()
    bad[(-1,) * array.ndim] = np.nan if array.dtype.kind == "f" else np.iinfo(array.dtype).max
    return bad


@pytest.mark.parametrize(
    ("case", "params"),
    [(case, {}) for case in [*CASES, *MADE_OF_OTHERS]]
    + [(case, WITH_PREDICTORS[case.name]) for case in CASES if case.name in WITH_PREDICTORS],
    ids=lambda value: getattr(value, "name", "with predictors" if value else ""),
)
def test_every_array_is_refused_where_it_is_altered(case, params):
    """A skipped check shows here: each array, pushed beyond its range or cut, must not get past loading."""
    kind, good, metadata = saved(case, **params)
    rf.load(model_to_bytes(kind, good, metadata))
    passed = []
    for name, array in good.items():
        if array.size == 0 or name.endswith("n_iter_"):
            continue
        free = array.dtype in (bool, np.uint8)  # any byte is text
        free = free or any(
            labels in name for labels in ("_class_list", "_labels.values", "_names.classes")
        )  # any number
        free = free or (name.endswith("n_samples_seen_") and array.dtype.kind == "i")  # a count that nothing reads
        for bad in [*([] if free else [beyond(array)]), array[:-1], array[None]]:
            try:
                rf.load(model_to_bytes(kind, good | {name: bad}, metadata))
                passed.append((name, bad.shape))
            except ModelFileError:
                pass
    assert [entry for entry in passed if entry[1][:1] != (1,) or not entry[0].endswith("coef_")] == []  # one target
