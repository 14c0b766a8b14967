"""Whole label vectors: how likely the true one is, what half of the labels tells of the rest, how often all are right.

Emotions and yeast, ten folds. The same base predictor (logistic regression) in all models: ``default`` (MultiLabelCRF with
nothing set), ``crf`` (MultiLabelCRF with predictors, all pairs of labels, exact sums), ``gaussian`` (GaussianCRFClassifier),
``ensemble`` (ten of scikit-learn's classifier chains in random orders, averaged; sums over all label vectors are exact),
``fitted_chains`` (the same on cross-fitted log-odds), ``powerset`` (one class per label vector seen in training, its penalty
chosen by inner folds, a share of .001 spread over all vectors), ``stacking`` (a second logistic regression per label on
cross-fitted probabilities of all labels).

``joint_ll``: mean log-likelihood of a test row. ``hidden_half_auc``: area under the curve of the labels of one half, given
the other half (and the other way round). ``behind_se``: the deficit of the better of ``default`` and ``crf`` to the best
rival on each measure, in standard errors of the difference over folds (negative: ahead). ``default_behind_se``: that of
``default`` to ``crf``. ``behind_rivals_se`` is the largest deficit over sets and measures.

Run with ``RULEFIELD_DATA=<folder> OMP_NUM_THREADS=1 python benchmarks/papers/multilabel_joint.py [emotions] [yeast]``
(``--folds 0 1`` for some of the ten folds, ``--keep DIR`` to keep the figures of each model and go on from them).
"""

import argparse
import json
import sys
from pathlib import Path
from time import process_time

import numpy as np
from scipy.special import log_expit, logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.multioutput import ClassifierChain
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import rulefield as rf
from common import data_folder, kept
from rulefield.datasets.multilabel import read_emotions, read_yeast

SETS = {"emotions": read_emotions, "yeast": read_yeast}
N_CHAINS = 10
MEASURES = ("joint_ll", "hidden_half_auc", "subset_accuracy")


def base():
    return LogisticRegression(C=0.1, max_iter=500)


class Crf:
    """MultiLabelCRF with the base predictor inside."""

    def __init__(self, X, Y):
        self.model = rf.MultiLabelCRF(structure="full", predictors=[base()], l2=3.0).fit(X, Y)

    def log_joint(self, X, Y):
        return self.model.predict_joint_log_proba(X, Y)

    def given(self, X, known):
        return np.stack([table[:, 1] for table in self.model.predict_proba(X, known=known)], axis=1)

    def best(self, X):
        return self.model.predict(X)


class Default(Crf):
    """MultiLabelCRF with nothing set."""

    def __init__(self, X, Y):
        self.model = rf.MultiLabelCRF().fit(X, Y)


class Gaussian:
    """The Gaussian field over the same predictor."""

    def __init__(self, X, Y):
        self.model = rf.GaussianCRFClassifier(predictors=[base()], random_state=0).fit(X, Y)

    def log_joint(self, X, Y):
        return self.model.predict_joint_log_proba(X, Y, n_samples=200)

    def given(self, X, known):
        found = self.model.predict_proba(X, known=known)
        return np.stack([t[:, 1] for t in found], axis=1) if isinstance(found, list) else np.asarray(found)

    def best(self, X):
        return self.model.predict(X)


def all_vectors(n_labels):
    """Every label vector, (2^L, L)."""
    return ((np.arange(2**n_labels)[:, None] >> np.arange(n_labels)) & 1).astype(np.int8)


class Ensemble:
    """Classifier chains in random orders; a chain's logits are linear, so that all label vectors are scored at once."""

    def __init__(self, X, Y):
        self.every = all_vectors(Y.shape[1])
        self.chains = [ClassifierChain(base(), order="random", random_state=k).fit(X, Y) for k in range(N_CHAINS)]

    last = (None, None)

    def _all(self, X):
        """Log-probability of every label vector, (n, 2^L); those of the last X are kept."""
        if self.last[0] is not X:
            self.last = X, self._compute(X)
        return self.last[1]

    def _compute(self, X):
        total = None
        for chain in self.chains:
            logs = np.zeros((len(X), len(self.every)), dtype=np.float32)
            n = X.shape[1]
            for k, (label, one) in enumerate(zip(chain.order_, chain.estimators_)):
                own = X @ one.coef_[0, :n] + one.intercept_[0]
                before = self.every[:, chain.order_[:k]] @ one.coef_[0, n:]
                logit = (own[:, None] + before[None, :]).astype(np.float32)
                logs += log_expit(np.where(self.every[:, label] == 1, logit, -logit))
            total = logs if total is None else np.logaddexp(total, logs)
        return total - np.log(N_CHAINS)

    def log_joint(self, X, Y):
        number = (Y.astype(int) << np.arange(Y.shape[1])).sum(axis=1)
        return self._all(X)[np.arange(len(X)), number]

    def given(self, X, known):
        logs = self._all(X)
        is_known = ~np.isnan(known[0])
        fits = (self.every[:, is_known][None] == known[:, is_known][:, None]).all(axis=2)
        logs = np.where(fits, logs, -np.inf)
        shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        return shares @ self.every

    def best(self, X):
        return self.every[self._all(X).argmax(axis=1)]


class FittedChains(Ensemble):
    """The ensemble on cross-fitted log-odds of all labels in place of the features."""

    def __init__(self, X, Y):
        columns = [cross_val_predict(base(), X, y, cv=5, method="decision_function") for y in Y.T]
        self.first = [base().fit(X, y) for y in Y.T]
        super().__init__(np.stack(columns, axis=1), Y)

    def _compute(self, X):
        return super()._compute(np.stack([one.decision_function(X) for one in self.first], axis=1))


class Powerset(Ensemble):
    """One class per label vector; a thousandth of the probability is spread over all vectors."""

    def __init__(self, X, Y):
        self.every = all_vectors(Y.shape[1])
        number = (Y << np.arange(Y.shape[1])).sum(axis=1)
        search = GridSearchCV(
            LogisticRegression(max_iter=500), {"C": [0.001, 0.003, 0.01, 0.03, 0.1]}, cv=3, scoring=log_share
        )
        self.model = search.fit(X, number).best_estimator_

    def _compute(self, X):
        shares = np.full((len(X), len(self.every)), 1e-3 / len(self.every))
        shares[:, self.model.classes_] += (1.0 - 1e-3) * self.model.predict_proba(X)
        return np.log(shares)


def log_share(model, X, y):
    """Mean log-probability of the true class; a class that was not seen counts as one in a million."""
    shares = dict(zip(model.classes_, model.predict_proba(X).T))
    return float(np.mean([np.log(shares[c][i] if c in shares else 1e-6) for i, c in enumerate(y)]))


class Stacking:
    """Labels apart, each from the cross-fitted probabilities of all; a half that is known stands in for its probabilities."""

    def __init__(self, X, Y):
        columns = [cross_val_predict(base(), X, y, cv=5, method="predict_proba")[:, 1] for y in Y.T]
        self.first = [base().fit(X, y) for y in Y.T]
        level = np.stack(columns, axis=1)
        self.second = [LogisticRegression().fit(level, y) for y in Y.T]

    def _shares(self, X, known=None):
        level = np.stack([one.predict_proba(X)[:, 1] for one in self.first], axis=1)
        if known is not None:
            level = np.where(np.isnan(known), level, known)
        return np.stack([one.predict_proba(level)[:, 1] for one in self.second], axis=1)

    def log_joint(self, X, Y):
        shares = np.clip(self._shares(X), 1e-6, 1 - 1e-6)
        return np.where(Y == 1, np.log(shares), np.log1p(-shares)).sum(axis=1)

    def given(self, X, known):
        return self._shares(X, known)

    def best(self, X):
        return (self._shares(X) > 0.5).astype(int)


MODELS = {
    "default": Default,
    "crf": Crf,
    "gaussian": Gaussian,
    "ensemble": Ensemble,
    "fitted_chains": FittedChains,
    "powerset": Powerset,
    "stacking": Stacking,
}
OURS, RIVALS = ("default", "crf"), ("ensemble", "fitted_chains", "powerset", "stacking")


def hidden_half(model, X, Y):
    """Area under the curve over all labels of a half that has both values, given the other half; both halves."""
    halves = np.arange(Y.shape[1]) % 2
    truth, guess = [], []
    for half in (0, 1):
        known = np.where(halves == half, Y.astype(float), np.nan)
        shares = model.given(X, known)[:, halves != half]
        truth.append(Y[:, halves != half].ravel())
        guess.append(shares.ravel())
    return roc_auc_score(np.concatenate(truth), np.concatenate(guess))


def measure(data, number, make):
    """All measures of one model on one of the ten folds."""
    train, test = list(KFold(10, shuffle=True, random_state=0).split(data.X))[number]
    scaler = StandardScaler().fit(data.X[train])
    X, new = scaler.transform(data.X[train]), scaler.transform(data.X[test])
    Y, gold = data.Y[train].astype(int), data.Y[test].astype(int)
    begin = process_time()
    model = make(X, Y)
    return {
        "joint_ll": float(np.mean(model.log_joint(new, gold))),
        "hidden_half_auc": float(hidden_half(model, new, gold)),
        "subset_accuracy": float((model.best(new) == gold).all(axis=1).mean()),
        "cpu_s": process_time() - begin,
    }


def fold(name, number, keep):
    """The figures of every model on a fold; those that the folder has already are read."""
    data = SETS[name](data_folder() / name)
    found = {}
    for model, make in MODELS.items():
        found[model] = kept(keep, f"{name}_{number}_{model}", measure, data, number, make)
        print(f"{name} fold {number} {model} {found[model]}", flush=True)
    return found


def best_of(rows, names, key):
    return np.array(max((rows[name][key] for name in names), key=np.mean))


def deficits(rows, ours, rivals):
    """How far the best of ours is behind the best rival on each measure, in standard errors (negative: ahead)."""
    found = {}
    for key in MEASURES:
        difference = best_of(rows, rivals, key) - best_of(rows, ours, key)
        error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
        found[key] = round(float(difference.mean() / error), 2)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", choices=list(SETS))
    parser.add_argument("--folds", type=int, nargs="*", default=list(range(10)))
    parser.add_argument("--keep", type=Path, default=None)
    options = parser.parse_args()
    result = {}
    for name in options.sets or SETS:
        folds = [fold(name, number, options.keep) for number in options.folds]
        rows = {model: {key: [one[model][key] for one in folds] for key in folds[0][model]} for model in MODELS}
        result[name] = {
            model: {k: round(float(np.mean(v)), 4) for k, v in row.items()} for model, row in rows.items()
        }
        result[name]["behind_se"] = deficits(rows, OURS, RIVALS)
        result[name]["default_behind_se"] = deficits(rows, ("default",), ("crf",))
        for model, row in result[name].items():
            print(f"{name:<9} {model:<10} {row}", flush=True)
    result["behind_rivals_se"] = max(value for row in result.values() for value in row["behind_se"].values())
    result["rows"] = {f"{name}: {model}": result[name][model] for name in options.sets or SETS for model in MODELS}
    result["folds"] = len(options.folds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
