"""Partial labels
==============

Train on what is known, ask the model how sure it is, and label the rest with its help.

An annotator left some tokens blank (``None``) and on others was sure only of a choice (a set). The chain sums over what
is unknown. Its probabilities then show where a second look is worth most, and its k best answers what to choose from.

Run with ``python examples/partial_labels.py [FOLDER]``; FOLDER gets the picture.
"""

# %% Addresses of which a third of the labels is missing and some are choices.
import sys
import tempfile
from pathlib import Path

import numpy as np

import rulefield as rf
from rulefield.datasets import make_addresses

rng = np.random.default_rng(0)
X, y = make_addresses(60, seed=0, noise=0.4)
X_new, y_new = make_addresses(100, seed=1, noise=0.4)
labels = sorted({label for row in y for label in row})


def half_known(label):
    if rng.random() < 0.35:
        return None
    return {label, str(rng.choice(labels))} if rng.random() < 0.2 else label


y_partial = [[half_known(label) for label in row] for row in y]
print(list(zip(X[0], y_partial[0])))

# %% Training needs no change. Compare with all labels known.
settings = {"l2": 0.5, "max_iter": 40}
full = rf.ChainCRF(**settings).fit(X, y)
partial = rf.ChainCRF(**settings).fit(X, y_partial)
print(f"all labels known: token accuracy {rf.metrics.token_accuracy(y_new, full.predict(X_new)):.3f}")
print(f"partial labels:   token accuracy {rf.metrics.token_accuracy(y_new, partial.predict(X_new)):.3f}")

# %% The model fills the blanks of its own training data, and never contradicts what was known.
filled = partial.predict(X, known=y_partial)
right = [f == g for rows in zip(filled, y, y_partial) for f, g, known in zip(*rows) if known is None]
print(f"{len(right)} blanks filled, {np.mean(right):.1%} right")

# %% Where is it unsure? The probability of the label it chose, token by token.
predicted = partial.predict(X_new)
marginals = partial.predict_marginals(X_new)
chances = [[table[label] for table, label in zip(rows, found)] for rows, found in zip(marginals, predicted)]
doubtful = int(np.argmin([min(row) for row in chances]))
for token, label, chance in zip(X_new[doubtful], predicted[doubtful], chances[doubtful]):
    print(f"  {token:15s} {label:12s} {chance:.2f}")

# %% Its k best answers for that one, with their probabilities.
for answer, probability in partial.predict_kbest([X_new[doubtful]], k=3)[0]:
    print(f"  {probability:.3f}", *answer)


# %% A picture: are the probabilities to be trusted? Right answers by probability.
def picture(folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    chance = np.concatenate(chances)
    right = np.array([a == b for f, g in zip(predicted, y_new) for a, b in zip(f, g)])
    bins = np.clip((chance * 10).astype(int), 0, 9)
    met = [k for k in range(10) if (bins == k).any()]
    figure, axes = plt.subplots(figsize=(4.5, 4), layout="constrained")
    axes.plot([0, 1], [0, 1], "k:", lw=1)
    axes.plot([chance[bins == k].mean() for k in met], [right[bins == k].mean() for k in met], "o-")
    axes.set_xlabel("probability of the chosen label")
    axes.set_ylabel("share that is right")
    figure.savefig(folder / "partial_labels.png", dpi=120)
    print("picture:", folder / "partial_labels.png")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="rulefield-"))
    target.mkdir(parents=True, exist_ok=True)
    try:
        picture(target)
    except ImportError:
        print("no picture: matplotlib is not installed")
