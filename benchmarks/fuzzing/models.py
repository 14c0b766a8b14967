"""Model files with altered arrays and metadata, signed again: refused, or used without a crash or a raw error."""

import json
import sys
from copy import deepcopy
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import rulefield as rf
from oracles.contract_cases import CASES, PARSER, TAGGER, graphs, picked, sequences, table
from rulefield import rules as r
from rulefield.data.sequences import Sequences
from rulefield.exceptions import ModelFileError, RulefieldError
from rulefield.persistence import load_model, model_to_bytes

HOSTILE_TEXTS = [
    "",
    "\0",
    "'",
    "a" * 5000,
    "(a|a)*$",
    "*" * 40,
    "🙂",
    "NaN",
    "-1",
    "__class__",
    "B-",
    "../x",
    "present(",
]
HOSTILE_NUMBERS = [
    -1,
    0,
    1,
    2,
    7,
    255,
    2**31,
    2**32,
    2**53,
    2**63 - 1,
    2**63,
    10**30,
    1e308,
    -1e-300,
    0.5,
    float("nan"),
    float("inf"),
]


@cache
def targets():
    """Return the models: name, (kind, arrays, metadata), what to use them on."""
    made = {}
    for name, model, X, y in _fitted():
        try:
            made[name] = load_model(model.to_bytes()), X, y
        except RulefieldError as error:  # an estimator whose models no file can hold
            print(f"note {name} cannot be saved: {error}", file=sys.stderr)
    return made


def _fitted():
    few = slice(0, 3)
    for case in CASES:
        X, y = case.data()
        yield case.name, case.make().fit(X, y), X[few], y[few]
        if case.rule is not None and case.cls is not rf.RuledCRF and "rules" in case.make().get_params():
            yield f"{case.name} with rules", case.make(rules=[case.rule().soft(1.0)]).fit(X, y), X[few], y[few]
    X, y = sequences()
    lengths = [len(x) for x in X]
    matrix = np.random.default_rng(0).normal(size=(sum(lengths), 4))
    yield (
        "ChainCRF of matrices",
        rf.ChainCRF(max_iter=10).fit(Sequences(matrix, lengths), y),
        Sequences(matrix, lengths),
        y,
    )
    dicts = [[{"word": w, "n": len(w)} for w in x] for x in X]
    yield (
        "ChainCRF of dicts",
        rf.ChainCRF(max_iter=10, rules=[r.at(r.token_matches("[0-9]"), here="O")]).fit(dicts, y),
        dicts[few],
        y[few],
    )
    X, y = PARSER.data()
    yield "TextParser", PARSER.make().fit(X, y), X[few], y[few]
    yield "TextParser of a pattern", PARSER.make(tokenizer=r"\w+").fit(X, y), X[few], y[few]
    X, y = TAGGER.data()
    yield "DocumentTagger", TAGGER.make().fit(X, y), X[few], y[few]
    yield from _with_predictors(few)
    yield from _gaussian()


def _with_predictors(few):
    """Models that hold those of scikit-learn."""
    X, y = graphs()
    made = rf.GraphCRF(predictors={"token": [LogisticRegression()]}, max_iter=30).fit(X, y)
    yield "GraphCRF with predictors", made, X[few], y[few]
    X, y = table()
    made = rf.MultiLabelCRF(predictors=[LogisticRegression()], max_iter=30).fit(X, y)
    yield "MultiLabelCRF with predictors", made, X[few], y[few]


def _gaussian():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(30, 4, 2))
    similarity = np.ones((4, 4)) - np.eye(4)
    labels = (scores.sum(axis=2) + 0.3 * rng.normal(size=(30, 4)) > 0).astype(int)
    few = slice(0, 3)
    made = rf.GaussianCRFClassifier(predictors="precomputed", graphs=[similarity]).fit(scores, labels)
    yield "GaussianCRFClassifier of scores", made, scores[few], labels[few]
    values = scores.sum(axis=2) + 0.3 * rng.normal(size=(30, 4))
    yield (
        "GaussianCRFRegressor of scores",
        rf.GaussianCRFRegressor(predictors="precomputed", graphs=[similarity]).fit(scores, values),
        scores[few],
        values[few],
    )


# --- one case -----------------------------------------------------------------------------------


def altered_model(rng):
    """Try one altered file; returns what became of it: refused, refused at use, or used."""
    name = str(rng.choice(sorted(targets())))
    (kind, arrays, metadata), X, y = targets()[name]
    arrays, metadata = dict(arrays), deepcopy(metadata)
    done = []
    for _ in range(1 + int(rng.random() < 0.2)):
        done.append(_alter_arrays(rng, arrays) if rng.random() < 0.6 else _alter_metadata(rng, metadata))
    describe = f"{name}: {'; '.join(done)}"
    try:
        data = model_to_bytes(kind, arrays, metadata)
    except (TypeError, ValueError):
        return "not written", describe
    try:
        model = rf.load(data)
    except ModelFileError:
        return "refused", describe
    except BaseException as error:
        error.add_note(f"at loading: {describe}")
        raise
    try:
        return _use(model, X, y), describe
    except BaseException as error:
        error.add_note(f"at use: {describe}")
        raise


def warm_up():
    """Load and use every model as it is: compiles, and tells that the models themselves are good."""
    for name, (state, X, y) in targets().items():
        outcome = _use(rf.load(model_to_bytes(*state)), X, y)
        if outcome != "used":
            print(f"note {name}: a method refuses the unaltered model", file=sys.stderr)


def altered_bytes(rng):
    """Try one file with altered bytes."""
    name = str(rng.choice(sorted(targets())))
    data = bytearray(model_to_bytes(*targets()[name][0]))
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(data)))
        kind = rng.integers(4)
        if kind == 0:
            data[at] = int(rng.integers(256))
        elif kind == 1:
            del data[at : at + int(rng.integers(1, 2 + len(data) // 2))]
        elif kind == 2:
            data[at:at] = rng.bytes(int(rng.integers(1, 50)))
        else:
            data[:8] = int(rng.integers(2**62)).to_bytes(8, "little")
        if not data:
            break
    try:
        rf.load(bytes(data))
    except ModelFileError:
        return "refused", name
    return "used", name


def _use(model, X, y):
    refused = 0
    calls = [
        lambda: model.predict(X),
        lambda: model.decode(X),
        lambda: model.predict_marginals(X),
        lambda: model.predict_proba(X),
        lambda: model.predict_kbest(X, k=2),
        lambda: model.sample(X),
        lambda: model.explain(picked(X, [0])[0] if not isinstance(X, Sequences) else X),
        lambda: model.score(X, y),
        lambda: model.parse(picked(X, [0])[0]),
        lambda: model.to_bytes(),
        lambda: repr(model),
    ]
    names = ["predict", "decode", "predict_marginals", "predict_proba", "predict_kbest", "sample", "explain", "score"]
    for name, call in zip([*names, "parse", "to_bytes", "__repr__"], calls):
        if not hasattr(model, name) or (isinstance(X, Sequences) and name == "explain"):
            continue
        try:
            call()
        except RulefieldError:
            refused += 1
    return "refused at use" if refused else "used"


def _alter_arrays(rng, arrays):
    if not arrays:
        return "no array is left"
    name = str(rng.choice(sorted(arrays)))
    array = np.array(arrays[name])
    kind = int(rng.integers(10))
    if kind == 0:
        arrays.pop(name)
        return f"{name} left out"
    if kind == 1:
        other = str(rng.choice(sorted(arrays)))
        arrays[name], arrays[other] = arrays[other], array
        return f"{name} and {other} swapped"
    if kind == 2:
        arrays[name] = array.astype(
            str(rng.choice(["uint8", "int32", "int64", "uint32", "uint64", "float32", "float64", "bool"]))
        )
        return f"{name} as {arrays[name].dtype}"
    if kind == 3:
        arrays[name] = array[: int(rng.integers(len(array) + 1))] if array.ndim else array[None]
        return f"{name} cut to {arrays[name].shape}"
    if kind == 4:
        arrays[name] = np.concatenate([array, array]) if array.ndim else array
        return f"{name} doubled"
    if kind == 5:
        arrays[name] = array.reshape((1, *array.shape)) if rng.random() < 0.5 else array.ravel()
        return f"{name} as {arrays[name].shape}"
    if kind == 6:
        arrays["extra"] = array
        return f"{name} also as extra"
    if array.size == 0:
        arrays[name] = np.ones((3, *array.shape[1:]), array.dtype)
        return f"{name} filled"
    return _alter_values(rng, arrays, name, array, kind)


def _alter_values(rng, arrays, name, array, kind):
    flat = array.ravel()
    where = rng.integers(flat.size, size=int(rng.integers(1, 4))) if kind < 9 else slice(None)
    if array.dtype == bool:
        flat.view(np.uint8)[where] = int(rng.integers(256))
    elif array.dtype.kind == "f":
        flat[where] = float(rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, -1.0, 0.0, 1e200, 1e20]))
    else:
        info = np.iinfo(array.dtype)
        values = [0, 1, info.max, info.min, info.max // 2, flat.max(), min(len(flat), info.max), int(flat.max()) + 1]
        flat[where] = values[int(rng.integers(len(values)))] if int(flat.max()) < info.max else 0
    arrays[name] = flat.reshape(array.shape)
    return f"{name}[{where}] = {flat[where]!r:.60}"


def _alter_metadata(rng, metadata):
    spots = list(_spots(metadata, "metadata"))
    holder, key, path = spots[int(rng.integers(len(spots)))]
    kind = int(rng.integers(6))
    if kind == 0:
        del holder[key]
        return f"{path} left out"
    if kind == 1:
        other, there, place = spots[int(rng.integers(len(spots)))]
        try:
            holder[key] = deepcopy(other[there])
        except (KeyError, IndexError):
            return f"{path} kept"
        return f"{path} = {place}"
    if kind == 2 and isinstance(holder, dict):
        holder[str(rng.choice(["extra", "$", "value", "items"]))] = _hostile(rng)
        return f"{path}'s holder has one more"
    if kind == 3 and isinstance(holder, list):
        holder.insert(int(key), deepcopy(holder[key]) if rng.random() < 0.5 else _hostile(rng))
        return f"{path} has one more before"
    holder[key] = _hostile(rng)
    return f"{path} = {json.dumps(holder[key])[:60]}"


def _hostile(rng):
    kind = int(rng.integers(6))
    if kind == 0:
        return None
    if kind == 1:
        return bool(rng.random() < 0.5)
    if kind == 2:
        return HOSTILE_NUMBERS[int(rng.integers(len(HOSTILE_NUMBERS)))]
    if kind == 3:
        return HOSTILE_TEXTS[int(rng.integers(len(HOSTILE_TEXTS)))]
    if kind == 4:
        return [[], {}, [[]], {"$": "tuple", "items": []}, {"$": "RandomState", "state": []}][int(rng.integers(5))]
    return [{"a": 1}, [1, "a"], ["x"] * 3, {"$": "array", "name": "theta"}, {"$": "no"}][int(rng.integers(5))]


def _spots(value, path):
    """Every place in nested lists and dicts: its holder, its key, its name."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key, f"{path}.{key}"
        yield from _spots(inner, f"{path}.{key}")
