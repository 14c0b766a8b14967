"""Snakes
======

Label a snake's ten cells from head to tail, first without and then with what we know for certain.

Each cell shows only the direction of the next one, so the field must carry numbers along the snake. Knowing that a
picture holds each number at most once repairs most of what is left.

Run with ``python examples/graph_snakes.py [picture.png]``.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np

import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_snakes, snake_graph

# %% draw pictures and turn them into graphs
pictures = make_snakes(80, seed=0)
graphs = [snake_graph(p) for p in pictures]
labels = [p.labels.ravel() for p in pictures]
train, test = slice(0, 60), slice(60, 80)

# %% learn, predict, and predict under the rules
crf = rf.GraphCRF(l2=0.3).fit(graphs[train], labels[train])
once = [r.at_most(1, r.nodes("cell").is_(k)) for k in range(1, 11)]
plain = crf.predict(graphs[test])
ruled = crf.decode(graphs[test], rules=once)
truth = np.concatenate(labels[test])
print(f"plain:      {(np.concatenate(plain) == truth).mean():.3f} of the cells right")
print(f"with rules: {(np.concatenate([x.labels for x in ruled]) == truth).mean():.3f}")
print(f"proved optimal: {sum(x.status == 'optimal' for x in ruled)} of {len(ruled)}")

# %% show the first test picture, wrong cells framed
if importlib.util.find_spec("matplotlib"):
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    from rulefield.plots import plot_grid

    shape = pictures[60].labels.shape
    _, (left, right) = plt.subplots(1, 2, figsize=(8, 4))
    plot_grid(plain[0].reshape(shape), truth=pictures[60].labels, title="plain", ax=left)
    plot_grid(np.reshape(ruled[0].labels, shape), truth=pictures[60].labels, title="with rules", ax=right)
    if len(sys.argv) > 1:
        plt.savefig(Path(sys.argv[1]) / "graph_snakes.png", dpi=120)
