"""Scores from elsewhere
=====================

A frozen transformer scores labels, and rules, transitions and a few features are put on top.

A token classifier gives logits for sub-words, each by itself: totals come in pieces, and an ``I-`` follows nothing. Here such
logits are simulated, so that the example needs no network and no GPU; with a real model, ``subword_logits`` is
``model(**encoded).logits[0]`` and ``word_ids`` is ``encoded.word_ids()``. Pool them to words, and then

1. decode them under rules as they are (``rf.decode_scores``): nothing is learned;
2. learn a chain on top (``rf.Scored``): the logits stay as they are, transitions and features of words are learned beside
   them from few texts.

Run with ``python examples/scores_from_elsewhere.py [FOLDER]``; FOLDER gets the picture.
"""

# %% Addresses, and a "transformer" that knows them fairly well, one sub-word at a time.
import sys
import tempfile
from pathlib import Path

import numpy as np

import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_addresses

X, y = make_addresses(140, seed=0, noise=0.4)
labels = sorted({label for row in y for label in row})
rng = np.random.default_rng(0)


def subwords(words):
    """Cut words into pieces of at most four letters; word_ids says which word each comes from, None for special tokens."""
    pieces, word_ids = ["<s>"], [None]
    for number, word in enumerate(words):
        cut = [word[i : i + 4] for i in range(0, len(word), 4)]
        pieces += cut
        word_ids += [number] * len(cut)
    return [*pieces, "</s>"], [*word_ids, None]


def simulated_logits(gold, word_ids):
    """Noise, and 4 nats for the right label at the first piece of a word, 2 at the others; one word in twelve is misread."""
    logits = rng.normal(0.0, 1.0, (len(word_ids), len(labels)))
    misread = rng.random(len(gold)) < 1 / 12
    for piece, word in enumerate(word_ids):
        if word is not None:
            label = rng.choice(labels) if misread[word] else gold[word]
            first = word_ids[piece - 1] != word
            logits[piece, labels.index(label)] += 4.0 if first else 2.0
    return logits


# %% Sub-words to words: the score of a word is that of its first piece, or a mean over its pieces.
def pooled(logits, word_ids, n_words, how="first"):
    """Log-probabilities of the labels of words, (n_words, n_labels)."""
    scores = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    pieces = [[p for p, word in enumerate(word_ids) if word == number] for number in range(n_words)]
    return np.array([scores[own[0]] if how == "first" else scores[own].mean(axis=0) for own in pieces])


scores = []
for words, gold in zip(X, y):
    _, word_ids = subwords(words)
    scores.append(pooled(simulated_logits(gold, word_ids), word_ids, len(words)))

train, test = slice(0, 40), slice(40, 140)
X_test, y_test, scores_test = X[test], y[test], scores[test]


def accuracies(found):
    return rf.metrics.token_accuracy(y_test, found), rf.metrics.sequence_accuracy(y_test, found)


results = {"logits alone": accuracies([[labels[j] for j in table.argmax(axis=1)] for table in scores_test])}

# %% 1. Rules over the logits: nothing is learned. What a rule costs or forbids is proved, text by text.
rules = [r.each_at_most_once()]
found = rf.decode_scores(scores_test, labels, tokens=X_test, scheme="BIO", rules=rules, probability=True)
results["logits, scheme and rules"] = accuracies([labeling.labels for labeling in found])
print(found[0])

# %% 2. A chain over the logits, learned from 40 texts; its features are only what words look like.
settings = {"features": rf.TokenFeatures(window=0), "scheme": "BIO", "max_iter": 40}
scored = [rf.Scored(words, table, labels) for words, table in zip(X, scores)]
chain = rf.ChainCRF(**settings).fit(scored[train], y[train])
results["logits, learned chain"] = accuracies(chain.predict(scored[test]))
results["logits, learned chain, rules"] = accuracies(chain.predict(scored[test], rules=rules))
alone = rf.ChainCRF(**settings).fit(X[train], y[train])
results["the same chain without logits"] = accuracies(alone.predict(X_test))

for name, (tokens, whole) in results.items():
    print(f"{name:30} {tokens:.3f} of the words, {whole:.3f} of the addresses")

# %% Why: the given score is one more reason beside features and transitions.
print(chain.explain(scored[test][0], top=3))

# %% Save it: the file says that it wants scores, and refuses texts without them.
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="rulefield-"))
folder.mkdir(parents=True, exist_ok=True)
chain.save(folder / "over_logits.rf")
assert list(rf.load(folder / "over_logits.rf").predict(scored[test])) == list(chain.predict(scored[test]))


# %% A picture: whole addresses that are right.
def picture(folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    axes.barh(list(results), [whole for _, whole in results.values()], color="#4c78a8")
    axes.invert_yaxis()
    axes.set_xlabel("addresses labeled without a mistake")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "scores_from_elsewhere.png", dpi=120)
    print("picture:", folder / "scores_from_elsewhere.png")


if __name__ == "__main__":
    try:
        picture(folder)
    except ImportError:
        print("no picture: matplotlib is not installed")
