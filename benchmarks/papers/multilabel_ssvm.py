"""Multi-label structured SVM (rows of [Petrovic19], tables 2 and 3): full, tree, independent, on emotions and yeast.

Ten-fold cross-validation, features scaled on each training part, strength 10 throughout; beside them the CRF learned by
likelihood and one-versus-rest logistic regression. The paper reports accuracy a label: emotions .755 / .795 / .784 and
yeast .771 / .768 / .539 (full / tree / independent), in 77 / 75 / 147 and 10,137 / 722 / 79 seconds on its machine.

Run with ``RULEFIELD_DATA=<folder> OMP_NUM_THREADS=1 python benchmarks/papers/multilabel_ssvm.py [emotions] [yeast] [10]``;
the number says how many of the ten folds to run.
"""

import json
import sys
from pathlib import Path
from time import process_time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import rulefield as rf
from common import data_folder
from rulefield.datasets.multilabel import read_emotions, read_yeast

PAPER = {
    "emotions": {"ssvm_full": 0.755, "ssvm_tree": 0.795, "ssvm_none": 0.784},
    "yeast": {"ssvm_full": 0.771, "ssvm_tree": 0.768, "ssvm_none": 0.539},
}


def candidates():
    """All models; the SVM stops at a relative gap of 5 %."""
    made = {
        f"ssvm_{structure}": rf.MultiLabelCRF(structure=structure, algorithm="ssvm", l2=10.0, max_iter=12, tol=0.05)
        for structure in ("none", "tree", "full")
    }
    made["likelihood_tree"] = rf.MultiLabelCRF(structure="tree", l2=10.0, max_iter=60, tol=1e-5)
    made["logistic"] = make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression(C=0.1, max_iter=500)))
    return made


def measure(data, folds, paper):
    """Fit and predict every fold with every model; one row for each model."""
    rows = {}
    for name, model in candidates().items():
        right, whole, seconds = [], [], 0.0
        for train, test in list(KFold(10, shuffle=True, random_state=0).split(data.X))[:folds]:
            begin = process_time()
            guess = model.fit(data.X[train], data.Y[train].astype(int)).predict(data.X[test])
            seconds += process_time() - begin
            right.append(guess == data.Y[test])
            whole.append((guess == data.Y[test]).all(axis=1))
        accuracy = float(np.concatenate(right).mean())
        rows[name] = {
            "accuracy": round(accuracy, 4),
            "hamming_loss": round(1.0 - accuracy, 4),
            "subset_accuracy": round(float(np.concatenate(whole).mean()), 4),
            "cpu_s": round(seconds, 2),
        }
        beside = f"paper {paper[name]}" if name in paper else "not in the paper"
        print(f"  {name}: {rows[name]}; {beside}", flush=True)
    return rows


def main():
    root = data_folder()
    sets = {"emotions": read_emotions(root / "emotions"), "yeast": read_yeast(root / "yeast")}
    wanted = [name for name in sys.argv[1:] if name in sets] or list(sets)
    folds = next((int(word) for word in sys.argv[1:] if word.isdigit()), 10)
    result = {}
    for name in wanted:
        print(f"{name}: {sets[name].X.shape[0]} instances, {sets[name].Y.shape[1]} labels; paper: {PAPER[name]}")
        result[name] = measure(sets[name], folds, PAPER[name])
        best = max(result[name][row]["accuracy"] - PAPER[name][row] for row in PAPER[name])
        print(f"  largest gain over the paper's row of the same structure: {best:+.3f}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
