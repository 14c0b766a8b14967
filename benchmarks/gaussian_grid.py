"""Fit one Gaussian field on a grid of 10,000 to 90,000 nodes: seconds, and how they grow.

Run: python benchmarks/gaussian_grid.py    (add --all for jj, vb and regression on 10,000 and 40,000 nodes)
The last line is JSON: seconds_10000, seconds_40000, seconds_90000, exponent, auc_hidden.
"""

import json
import sys
import time
import warnings

import numpy as np
from sklearn.metrics import roc_auc_score

import rulefield as rf
from rulefield.datasets.fields import make_grid_field


def fit_map(side, method="map"):
    data = make_grid_field(side, side)
    field = rf.GaussianCRFClassifier(predictors="precomputed", graphs=data.graphs, algorithm=method, mean="smoothed")
    start = time.perf_counter()
    field.fit(data.scores, data.labels)
    seconds = time.perf_counter() - start
    hidden = np.isnan(data.labels[0])
    truth = data.latent[0, hidden] > 0
    auc = roc_auc_score(truth, field.predict_proba(data.scores)[0, hidden])
    plain = roc_auc_score(truth, data.scores[0, hidden, 0])
    weight = next(iter(field.graph_weights_.values()))
    print(
        f"{method:4} {side * side:6} nodes: fit {seconds:6.2f} s, {field.n_iter_} evaluations, rho {weight:.2f}, "
        f"AUC of hidden nodes {auc:.4f} (best predictor alone {plain:.4f})",
        flush=True,
    )
    return seconds, auc


def fit_values(side):
    data = make_grid_field(side, side)
    values = np.where(np.isnan(data.labels), np.nan, data.latent)
    field = rf.GaussianCRFRegressor(predictors="precomputed", graphs=data.graphs)
    start = time.perf_counter()
    field.fit(data.scores, values)
    print(f"regression {side * side:6} nodes: fit {time.perf_counter() - start:6.2f} s, {field.n_iter_} evaluations")


def main():
    warnings.simplefilter("ignore")
    fit_map(25)  # compile
    sides = (100, 200, 300)
    found = [fit_map(side) for side in sides]
    seconds = [s for s, _ in found]
    exponent = np.log(seconds[2] / seconds[0]) / np.log(9.0)
    print(f"time grows as N^{exponent:.2f} from 10,000 to 90,000 nodes")
    if "--all" in sys.argv:
        for side in (100, 200):
            fit_values(side)
        fit_map(100, "jj")
        fit_map(100, "vb")
    keys = {f"seconds_{s * s}": round(t, 3) for s, t in zip(sides, seconds)}
    print(json.dumps({**keys, "exponent": round(float(exponent), 3), "auc_hidden": round(float(found[2][1]), 4)}))


if __name__ == "__main__":
    main()
