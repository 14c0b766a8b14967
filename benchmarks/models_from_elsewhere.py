"""Models and code from elsewhere: CRFsuite's models opened here, and sklearn-crfsuite's tutorial with its import changed.

Bars: labels of ``rf.load_crfsuite`` equal those of ``pycrfsuite.Tagger`` and marginals agree to 1e-9 on 1,000 inputs each
(three models trained here by python-crfsuite, and the one inside the usaddress wheel); the CoNLL-2002 tutorial of
sklearn-crfsuite runs, and reaches its score.

    RULEFIELD_DATA=... python benchmarks/models_from_elsewhere.py [--quick]
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import process_time

import numpy as np
import pycrfsuite
import scipy.stats
import usaddress
from sklearn.metrics import make_scorer
from sklearn.model_selection import RandomizedSearchCV

import rulefield as rf
from common import conll2000, data_folder, read_columns
from rulefield.datasets import make_addresses, make_citations

QUICK = "--quick" in sys.argv
N_INPUTS = 100 if QUICK else 1000


def word_features(sentence: list[tuple[str, ...]], i: int) -> dict:
    """The features of the tutorial."""
    features: dict = {"bias": 1.0, "word[-3:]": sentence[i][0][-3:], "word[-2:]": sentence[i][0][-2:]}
    features["word.isdigit()"] = sentence[i][0].isdigit()
    for name, at in (("", i), ("-1:", i - 1), ("+1:", i + 1)):
        if not 0 <= at < len(sentence):
            features["BOS" if at < 0 else "EOS"] = True
            continue
        word, tag = sentence[at][:2]
        features |= {f"{name}word.lower()": word.lower(), f"{name}word.isupper()": word.isupper()}
        features |= {f"{name}word.istitle()": word.istitle(), f"{name}postag": tag, f"{name}postag[:2]": tag[:2]}
    return features


def conll2002(part: str) -> tuple[list, list]:
    sentences = read_columns(data_folder() / "conll2002_es" / part)
    X = [[word_features(s, i) for i in range(len(s))] for s in sentences]
    return X, [[token[-1] for token in s] for s in sentences]


def plain_features(tokens: list[str]) -> list[dict]:
    return [
        {"word": w.lower(), "digit": w.isdigit(), "title": w.istitle(), "end": w[-2:], "first": i == 0}
        for i, w in enumerate(tokens)
    ]


def compare(name: str, path: str, inputs: list, features: Callable | None = None) -> float:
    """Print and return the largest difference of marginals; end where a label differs."""
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    crf = rf.load_crfsuite(path, features=features)
    labels, marginals = crf.predict(inputs), crf.predict_marginals(inputs, output="array")
    worst = 0.0
    for items, found, chances in zip(inputs, labels, marginals):
        tagger.set(items if features is None else features(items))
        if tagger.tag() != found:
            raise SystemExit(f"{name}: labels differ: {tagger.tag()} there, {found} here.")
        expected = [[tagger.marginal(label, t) for label in crf.classes_] for t in range(len(found))]
        worst = max(worst, float(np.abs(chances - expected).max()))
    print(f"{name:>12}: {len(inputs)} inputs, labels equal, marginals differ by at most {worst:.1e}")
    return worst


def trained(X: list, y: list, folder: str, name: str) -> str:
    trainer = pycrfsuite.Trainer(verbose=False, params={"c1": 0.1, "c2": 0.1, "max_iterations": 30})
    for items, labels in zip(X, y):
        trainer.append(items, labels)
    path = str(Path(folder) / name)
    trainer.train(path)
    return path


def opened_models() -> float:
    n_train = 200 if QUICK else 2000
    worst = []
    with tempfile.TemporaryDirectory() as folder:
        X, y = conll2000("train")
        worst.append(compare("conll2000", trained(X[:n_train], y[:n_train], folder, "a"), X[-N_INPUTS:]))
        X, y = conll2002("esp.testa")
        worst.append(compare("conll2002", trained(X[:n_train], y[:n_train], folder, "b"), X[-N_INPUTS:]))
        tokens, y = make_citations(300, seed=0)
        path = trained([plain_features(row) for row in tokens], y, folder, "c")
        worst.append(compare("citations", path, make_citations(N_INPUTS, seed=1)[0], plain_features))
    path = str(Path(usaddress.__file__).parent / "usaddr.crfsuite")
    texts = [" ".join(tokens) for tokens in make_addresses(N_INPUTS, seed=0)[0]]
    worst.append(
        compare("usaddress", path, [usaddress.tokenize(t) for t in texts], lambda t: usaddress.tokens2features(t))
    )
    parser = rf.load_crfsuite(path, tokenizer=usaddress.tokenize, features=usaddress.tokens2features)
    for text in texts[:50]:
        fields = [(span.text, span.label) for span in parser.parse(text).spans]
        assert [label for _, label in _blocks(usaddress.parse(text))] == [label for _, label in fields]
    return max(worst)


def _blocks(parsed: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Tokens with the same label one after the other, as one field."""
    return [pair for i, pair in enumerate(parsed) if i == 0 or parsed[i - 1][1] != pair[1]]


def tutorial(module: str) -> tuple[float, float]:
    """Run the tutorial with the names of ``module``; return its weighted F1 and the CPU seconds of ``fit``."""
    sklearn_crfsuite = import_module(module)
    metrics = import_module(f"{module}.metrics")
    X_train, y_train = conll2002("esp.train.gz")
    X_test, y_test = conll2002("esp.testb")
    if QUICK:
        X_train, y_train, X_test, y_test = X_train[:400], y_train[:400], X_test[:200], y_test[:200]
    crf = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True)
    begun = process_time()
    crf.fit(X_train, y_train)
    seconds = process_time() - begun
    labels = list(crf.classes_)
    labels.remove("O")
    score = metrics.flat_f1_score(y_test, crf.predict(X_test), average="weighted", labels=labels)
    in_order = sorted(labels, key=lambda name: (name[1:], name[0]))
    print(metrics.flat_classification_report(y_test, crf.predict(X_test), labels=in_order, digits=3))
    search = RandomizedSearchCV(
        sklearn_crfsuite.CRF(algorithm="lbfgs", max_iterations=20, all_possible_transitions=True),
        {"c1": scipy.stats.expon(scale=0.5), "c2": scipy.stats.expon(scale=0.05)},
        cv=3,
        n_iter=2,
        random_state=0,
        scoring=make_scorer(metrics.flat_f1_score, average="weighted", labels=labels),
    ).fit(X_train[:300], y_train[:300])
    print(
        f"{module}: F1 {score:.4f}, fit {seconds:.1f} s of CPU, {search.best_estimator_.size_} bytes after the search"
    )
    for (before, after), weight in Counter(crf.transition_features_).most_common(3):
        print(f"  {before:6} -> {after:7} {weight:.6f}")
    for (attribute, label), weight in Counter(crf.state_features_).most_common(3):
        print(f"  {weight:.6f} {label:8} {attribute}")
    return score, seconds


def main() -> None:
    worst = opened_models()
    theirs, their_seconds = tutorial("sklearn_crfsuite")
    ours, our_seconds = tutorial("rulefield.compat.sklearn_crfsuite")
    print(
        json.dumps(
            {
                "marginal_error": worst,
                "tutorial_f1": round(ours, 4),
                "tutorial_f1_crfsuite": round(theirs, 4),
                "tutorial_time_ratio": round(our_seconds / their_seconds, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
