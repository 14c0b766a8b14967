"""Scattered annotation: one model from two half-annotated corpora, and positives-only labels repaired by one share.

One team marked fields of citations, another marked what kind of word each token is, on different citations; nobody has
both. ``JointCRF`` learns both tasks at once and may be told what is known on average. In the second story a word list
found a third of the names and says nothing of the rest: a single number, the share of tokens that are names, mends it.

Run with ``python examples/scattered_annotation.py [FOLDER]``; FOLDER gets the picture.
"""

# %% Two tasks over the same tokens; each citation has the labels of one of them.
import sys
import tempfile
from pathlib import Path

import numpy as np

import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_citations

rng = np.random.default_rng(0)
X, fields = make_citations(140, seed=0, noise=0.4)
fields = [[label[2:] if label[2:] in ("author", "title", "date") else "other" for label in row] for row in fields]


def kind(word):
    if any(letter.isdigit() for letter in word):
        return "number"
    return "initial" if len(word.strip(".,")) == 1 else "name" if word[0].isupper() else "word"


kinds = [[kind(word) for word in row] for row in X]
train, test, elsewhere = slice(0, 40), slice(40, 100), slice(100, 140)
scattered = [{"field": f, "kind": None} if i % 2 else {"field": None, "kind": k} for i, (f, k) in
             enumerate(zip(fields[train], kinds[train]))]  # fmt: skip
gold = [{"field": f, "kind": k} for f, k in zip(fields[test], kinds[test])]

# %% What is known of the relation: initials stand in authors' names; dates are numbers.
features = rf.TokenFeatures(window=1, affixes=2, bigrams=False)
expectations = [
    r.share(field=["title", "date"], kind="initial").at_most(0.001).named("initials are authors"),
    r.share(field="date", kind=["initial", "word"]).at_most(0.001).named("dates are numbers"),
]
settings = {"features": features, "l2": 0.5, "max_iter": 3}
latent = rf.JointCRF(["field", "kind"], **settings).fit(X[train], scattered)
told = rf.JointCRF(["field", "kind"], expectations=expectations, **settings).fit(X[train], scattered)
for name, model in (("joint", latent), ("joint, told", told)):
    print(name, {task: round(score, 3) for task, score in model.score_tasks(X[test], gold).items()})
for report in told.expectations_:
    print(f"{report.expectation}: {report.under_q:.4f}, binds: {report.binds}")

# %% Positives only: a third of the author tokens is marked, everything else is unknown, one citation is complete.
names = [["author" if label == "author" else "rest" for label in row] for row in fields]
marked = [[label if label == "author" and rng.random() < 0.33 else None for label in row] for row in names[train]]
marked[0] = names[0]
positive = [{"who": row} for row in marked]
answers = [{"who": row} for row in names[test]]
share = float(np.mean([label == "author" for row in names[elsewhere] for label in row]))
remedy = [r.share(who="author").between(0.95 * share, 1.05 * share)]
full = rf.JointCRF(["who"], **settings).fit(X[train], [{"who": row} for row in names[train]])
alone = rf.JointCRF(["who"], **settings).fit(X[train], positive)
mended = rf.JointCRF(["who"], expectations=remedy, **settings).fit(X[train], positive)
scores = {}
for name, model in (("everything marked", full), ("positives only", alone), ("positives + one share", mended)):
    found = [label["who"] for label in model.predict(X[test])]
    scores[name] = rf.metrics.token_f1(names[test], found, average=None)["author"]
    called = np.mean([label == "author" for row in found for label in row])
    print(
        f"{name:22s} F1 of author tokens {scores[name]:.3f}; calls {called:.0%} of the tokens author ({share:.0%} are)"
    )


# %% A picture: the three models of the second story.
def picture(folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 2.2), layout="constrained")
    axes.barh(list(scores), list(scores.values()))
    axes.set_xlabel("F1 of author tokens")
    axes.set_xlim(0, 1)
    figure.savefig(folder / "scattered_annotation.png", dpi=120)
    print("picture:", folder / "scattered_annotation.png")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="rulefield-"))
    target.mkdir(parents=True, exist_ok=True)
    try:
        picture(target)
    except ImportError:
        print("no picture: matplotlib is not installed")
