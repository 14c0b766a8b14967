"""A noisy map of 40 x 40 cells
============================

Two weak predictors, labels for a third of the cells, one Gaussian field.

Run: python examples/gaussian_map.py [FOLDER]; FOLDER gets the picture where matplotlib is installed.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np

import rulefield as rf
from rulefield.datasets import make_grid_field

SIDE = 40


def accuracy(found, truth, cells):
    return (found == truth)[cells].mean()


def main():
    data = make_grid_field(SIDE, SIDE, noise=2.0, known=0.33, random_state=1)
    truth = (data.latent[0] > 0).astype(int)
    hidden = np.isnan(data.labels[0])

    field = rf.GaussianCRFClassifier(predictors="precomputed", graphs=data.graphs, algorithm="map")
    field.fit(data.scores, data.labels)
    smooth = field.predict_proba(data.scores)[0]

    print(f"cells without a label: {hidden.sum()} of {hidden.size}")
    print(f"best predictor alone:  {accuracy(data.scores[0, :, 0] > 0, truth, hidden):.3f}")
    print(f"field:                 {accuracy(smooth > 0.5, truth, hidden):.3f}")
    print(f"graph weight {field.graph_weights_}, predictors {field.predictor_weights_.round(2)}")
    if importlib.util.find_spec("matplotlib"):
        draw({"truth": truth, "best predictor": data.scores[0, :, 0] > 0, "field": smooth})


def draw(pictures):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(pictures), figsize=(3 * len(pictures), 3.2))
    for axis, (name, values) in zip(axes, pictures.items()):
        axis.imshow(np.asarray(values, dtype=float).reshape(SIDE, SIDE), cmap="RdBu", vmin=0, vmax=1)
        axis.set_title(name)
        axis.axis("off")
    figure.tight_layout()
    if len(sys.argv) > 1:
        figure.savefig(Path(sys.argv[1]) / "gaussian_map.png", dpi=100)
        print(f"wrote gaussian_map.png to {sys.argv[1]}")


if __name__ == "__main__":
    main()
