"""Scores of the unstructured predictors for the Gaussian benchmark, kept in a folder between runs.

Two protocols, ten folds each (KFold, shuffled, seed 0):

paper     predictors see 80 % of the training part; the field sees the other 20 % (the authors' split). Per label:
          ridge logistic (C=1), lasso logistic (C=1), neural network (one hidden layer of 20, alpha=1, 300 epochs),
          random forest (100 trees). Graphs: chi-square, mutual information, over-fitted network, distance of labels.
crossfit  all training data, 5-fold cross-fitted: one forest for all labels (600 trees for emotions; 200 for yeast, which
          has four times the rows: more trees help a little everywhere and cost time; leaves of 2 or more; bagged
          with sqrt(features) tried at a split, or extremely randomized with 30 % of them), and a ridge logistic
          regression per label (features standardized, C of .003, .01, .03 or .1). Which forest and which C: the one
          with the least cross-fitted log-loss on the training part of the fold. The bagged forest is also scored
          alone, for comparison.
"""

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rulefield.datasets.multilabel import MultiLabelData
from rulefield.encode.similarity import chi2, label_distance, mutual_info, overfit_correlation
from rulefield.estimators.predictors.cross_fitting import CrossFitting, FittedScores, ScoreTask, cross_fit_scores

PAPER_NAMES = ["ridge logistic", "lasso logistic", "neural network", "random forest"]
CROSSFIT_NAMES = ["chosen forest", "chosen logistic"]
GRAPH_NAMES = ["chi2", "mutual_info", "overfit_correlation", "label_distance"]
TASK = ScoreTask("binary", 2)
TREES = {"emotions": 600, "yeast": 200}


class Fold(NamedTuple):
    """Logits (n, labels, predictors) and labels that the field learns from, those of the test part, the graphs.

    ``plain_test`` are logits of predictors that the field does not see, ``chosen`` the settings that were chosen.
    """

    R: np.ndarray
    Y: np.ndarray
    R_test: np.ndarray
    Y_test: np.ndarray
    graphs: np.ndarray
    plain_test: np.ndarray
    chosen: np.ndarray


def paper_predictors():
    def scaled(model):
        return make_pipeline(StandardScaler(), model)

    return [
        scaled(LogisticRegression(C=1.0, max_iter=2000)),
        scaled(LogisticRegression(C=1.0, l1_ratio=1.0, solver="liblinear", max_iter=500)),
        scaled(MLPClassifier((20,), alpha=1.0, max_iter=300, random_state=0)),
        RandomForestClassifier(100, random_state=0),
    ]


def crossfit_predictors(n_trees):
    def forest(kind, features):
        return kind(n_trees, min_samples_leaf=2, max_features=features, random_state=0)

    def logistic(c):
        return make_pipeline(StandardScaler(), LogisticRegression(C=c, max_iter=1000))

    forests = [forest(RandomForestClassifier, "sqrt"), forest(ExtraTreesClassifier, 0.3)]
    return [forests, [logistic(c) for c in (0.003, 0.01, 0.03, 0.1)]]


def setting(predictor):
    """Return the settings of a chosen predictor in few words."""
    if isinstance(predictor, ExtraTreesClassifier):
        return "extremely randomized trees"
    return "random forest" if isinstance(predictor, RandomForestClassifier) else f"C {predictor[-1].C}"


def folds(name: str, data: MultiLabelData, protocol: str, cache: Path, n_jobs: int | None, n_folds: int = 10):
    """Yield the folds, computing what is not in the cache."""
    cache.mkdir(parents=True, exist_ok=True)
    parts = list(KFold(10, shuffle=True, random_state=0).split(data.X))[:n_folds]
    for number, (train, test) in enumerate(parts):
        file = cache / f"{name}-{protocol}-{number}.npz"
        if not file.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                warnings.simplefilter("ignore", FutureWarning)
                split = data.X[train], data.Y[train], data.X[test], data.Y[test]
                if protocol == "paper":
                    fold = paper_fold(*split)
                else:
                    fold = crossfit_fold(*split, crossfit_predictors(TREES[name]), n_jobs)
            np.savez(file, *fold)
        with np.load(file) as stored:
            yield Fold(*(stored[k] for k in stored.files))


def label_graphs(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return np.stack([chi2(Y), mutual_info(Y), overfit_correlation(X, Y), label_distance(Y)])


def paper_fold(X, Y, X_test, Y_test) -> Fold:
    seen, held = train_test_split(np.arange(len(X)), test_size=0.2, random_state=0)
    members = [[TASK.fit(p, X[seen], Y[seen, i]) for i in range(Y.shape[1])] for p in paper_predictors()]
    score = FittedScores(TASK, members, Y.shape[1], paper_predictors())
    return Fold(
        score(X[held])[:, 0], Y[held], score(X_test)[:, 0], Y_test, label_graphs(X, Y), np.empty(0), np.empty(0, "U1")
    )


def crossfit_fold(X, Y, X_test, Y_test, families, n_jobs) -> Fold:
    scores, _, fitted = cross_fit_scores(CrossFitting(families, 5, 0, n_jobs, joint=True), X, Y, TASK)
    plain = TASK.score_joint(TASK.fit_joint(families[0][0], X, Y), X_test)[:, 0]
    chosen = np.array([setting(p) for p in fitted.chosen])
    return Fold(scores[:, 0], Y, fitted(X_test)[:, 0], Y_test, label_graphs(X, Y), plain, chosen)
