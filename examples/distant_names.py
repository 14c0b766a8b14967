"""Distant supervision
===================

A list of known names marks some of them, nothing says where no name is; one number repairs it.

A chain that sums over everything unknown has no reason ever to say "no name", and calls everything one. The share of
tokens that belong to names, counted on a few complete texts, is enough to bring it back (``ChainCRF(expectations=...)``),
if it begins where unknown tokens are taken to be outside (``initial_label="O"``).

Run with ``python examples/distant_names.py [FOLDER]``; FOLDER gets the picture.
"""

# %% Citations with the names of authors marked; of the training part only names that a short list knows stay marked.
import sys
import tempfile
from pathlib import Path

import numpy as np

import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_citations

X, y = make_citations(240, seed=0, noise=0.2)
y = [[label if label.endswith("author") else "O" for label in row] for row in y]
train, test, elsewhere = slice(0, 120), slice(120, 200), slice(200, 240)
words = sorted({word for x, row in zip(X[train], y[train]) for word, label in zip(x, row) if label != "O"})
known = set(np.random.default_rng(0).choice(words, len(words) // 12, replace=False))


def by_the_list(tokens, labels):
    """Labels of the authors that the list knows a word of; None, unknown, everywhere else."""
    found, out = [], [None] * len(labels)
    for t, label in enumerate(labels):
        found = [t] if label.startswith("B-") else [*found, t] if label != "O" else []
        if found and any(tokens[s] in known for s in found):
            for s in found:
                out[s] = labels[s]
    return out


marked = [by_the_list(tokens, labels) for tokens, labels in zip(X[train], y[train])]
inside = [(full, seen) for rows in zip(y[train], marked) for full, seen in zip(*rows) if full != "O"]
print(
    f"the list knows {len(known)} words and marks {np.mean([seen is not None for _, seen in inside]):.0%} of author tokens"
)
print([f"{word}/{label or '?'}" for word, label in list(zip(X[0], marked[0]))[:8]])

# %% What should hold on average: the share of author tokens, counted elsewhere.
share = float(np.mean([label != "O" for row in y[elsewhere] for label in row]))
remedy = [r.share(["B-author", "I-author"]).between(0.95 * share, 1.05 * share).named("author tokens")]

# %% Three chains: unknown labels summed over; the same with the expectation; every label known.
settings = {"l2": 0.3, "scheme": "BIO", "features": rf.TokenFeatures(affixes=2, window=1, bigrams=False)}
anything = {"B-author", "I-author", "O"}
alone = rf.ChainCRF(**settings).fit(X[train], [[label or anything for label in row] for row in marked])
repaired = rf.ChainCRF(**settings, expectations=remedy, initial_label="O", max_iter=15).fit(X[train], marked)
full = rf.ChainCRF(**settings).fit(X[train], y[train])
scores = {}
for name, crf in (("list alone", alone), ("list + one share", repaired), ("everything marked", full)):
    found = crf.predict(X[test])
    scores[name] = rf.metrics.span_f1(y[test], found, scheme="BIO")
    called = np.mean([label != "O" for row in found for label in row])
    print(f"{name:18s} span F1 {scores[name]:.3f}; calls {called:.0%} of the tokens author ({share:.0%} are)")
for report in repaired.expectations_:
    print(
        f"{report.expectation}: {report.under_q:.3f} in training, {report.under_model:.3f} under the model, "
        f"multiplier {report.multiplier:+.3f}"
    )


# %% A picture: the three chains.
def picture(folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 2.2), layout="constrained")
    axes.barh(list(scores), list(scores.values()))
    axes.set_xlabel("span F1 of authors")
    axes.set_xlim(0, 1)
    figure.savefig(folder / "distant_names.png", dpi=120)
    print("picture:", folder / "distant_names.png")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="rulefield-"))
    target.mkdir(parents=True, exist_ok=True)
    try:
        picture(target)
    except ImportError:
        print("no picture: matplotlib is not installed")
