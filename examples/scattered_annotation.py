"""Scattered annotation
====================

One model from two half-annotated corpora.

One team marked fields of citations, another marked what kind of word each token is, on different citations; nobody has
both. ``JointCRF`` learns both tasks at once and may be told what is known on average. Where a list marked some names and
nothing else, see ``distant_names.py``.

Run with ``python examples/scattered_annotation.py [FOLDER]``; FOLDER gets the picture.
"""

# %% Two tasks over the same tokens; each citation has the labels of one of them.
import sys
import tempfile
from pathlib import Path

import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_citations

X, fields = make_citations(100, seed=0, noise=0.4)
fields = [[label[2:] if label[2:] in ("author", "title", "date") else "other" for label in row] for row in fields]


def kind(word):
    if any(letter.isdigit() for letter in word):
        return "number"
    if not word[0].isupper():
        return "word"
    return "initial" if len(word.strip(".,")) == 1 else "name"


kinds = [[kind(word) for word in row] for row in X]
train, test = slice(0, 40), slice(40, 100)
scattered = [{"field": f, "kind": None} if i % 2 else {"field": None, "kind": k} for i, (f, k) in
             enumerate(zip(fields[train], kinds[train]))]  # fmt: skip
gold = [{"field": f, "kind": k} for f, k in zip(fields[test], kinds[test])]

# %% What is known of the relation: initials stand in authors' names; dates are numbers.
features = rf.TokenFeatures(window=1, affixes=2, bigrams=False)
expectations = [
    r.share(field=["title", "date"], kind="initial").at_most(0.003).named("initials are authors"),
    r.share(field="date", kind=["initial", "word"]).at_most(0.0002).named("dates are numbers"),
]
settings = {"features": features, "l2": 0.5, "max_iter": 3}
latent = rf.JointCRF(tasks=["field", "kind"], **settings).fit(X[train], scattered)
told = rf.JointCRF(tasks=["field", "kind"], expectations=expectations, **settings).fit(X[train], scattered)
scores = {name: model.score_tasks(X[test], gold) for name, model in (("joint", latent), ("joint, told", told))}
for name, score in scores.items():
    print(name, {task: round(value, 3) for task, value in score.items()})
for report in told.expectations_:
    print(f"{report.expectation}: {report.under_q:.4f}, binds: {report.binds}")


# %% A picture: both models, both tasks.
def picture(folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 2.2), layout="constrained")
    bars = [(f"{name}: {task}", value) for name, score in scores.items() for task, value in score.items()]
    axes.barh(*zip(*bars))
    axes.set_xlabel("token accuracy")
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
