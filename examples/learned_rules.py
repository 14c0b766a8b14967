"""Rules that are learned
======================

Candidates by template, and held-out data to say which of them pay.

Nobody knows all rules of a domain, nor their prices. ``RuledCRF`` proposes hundreds (how many segments of which types a
sequence has), drops those that cannot matter, learns a price for each of the others, and reports what is left.

Run with ``python examples/learned_rules.py [FOLDER]``; FOLDER gets the picture.
"""

# %% Few citations to train on, some more to learn rules from, some to look at the outcome.
import sys
import tempfile
from pathlib import Path

import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_citations

X, y = make_citations(150, seed=3, noise=0.6)
train, dev, test = slice(0, 40), slice(40, 90), slice(90, 150)
crf = rf.ChainCRF(scheme="BIO", l2=0.5, max_iter=40).fit(X[train], y[train])

# %% Candidates are ordinary rules whose price is still to be learned.
candidates = r.propose(y[train], families=["singleton", "pairwise"])
print(len(candidates), "candidates, such as", candidates[0])

# %% Weights on data that the chain has not seen: rules are taken one by one, those that are worth most first.
ruled = rf.RuledCRF(crf, cv="prefit", rules=candidates).fit(X[dev], y[dev])
print(ruled.report())  # those that fix most first

# %% What it brings on new citations.
print(f"chain        span F1 {crf.score(X[test], y[test]):.3f}")
print(f"with rules   span F1 {ruled.score(X[test], y[test]):.3f}")

# %% Rules about order, neighbors and delimiters are mined: found in labels, with support and confidence.
for found in r.mine_table(X[dev], y[dev], min_support=20)[:5]:
    print(found)


# %% A picture: how the rules that were kept changed the held-out labels.
def picture(folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = sorted((row for row in ruled.report_ if row.weight > 0), key=lambda row: row.weight)[-15:]
    figure, axes = plt.subplots(figsize=(8, 0.35 * len(rows) + 1), layout="constrained")
    axes.barh([row.rule for row in rows], [row.weight for row in rows])
    for i, row in enumerate(rows):
        axes.text(row.weight, i, f" {row.helped:+d} tokens", va="center")
    axes.set_xlabel("learned price of a violation; tokens fixed by the rule alone")
    figure.savefig(folder / "learned_rules.png", dpi=120)
    print("picture:", folder / "learned_rules.png")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="rulefield-"))
    target.mkdir(parents=True, exist_ok=True)
    r.dump(ruled.rules_, target / "learned_rules.yaml")  # a file that people can read, change, and use with any model
    try:
        picture(target)
    except ImportError:
        print("no picture: matplotlib is not installed")
