"""Genes
=====

Where do genes begin and end? A segment's length is evidence that a chain of single bases cannot see.

``SegmentCRF`` scores whole pieces: their length, what stands at their ends. On made-up DNA with exons and introns it is set
beside a chain with the same features of bases.

Run with ``python examples/genes.py [FOLDER]``; FOLDER gets the picture.
"""

# %% Made-up DNA: outside, exons rich in G and C, introns that begin with GT and end with AG.
import sys
import tempfile
from pathlib import Path

import numpy as np

import rulefield as rf
from rulefield import rules as r


def strand(seed):
    """Bases and their labels: outside, then exon (intron exon)*, then outside."""
    rng = np.random.default_rng(seed)

    def piece(low, high, chances):
        return [str(base) for base in rng.choice(list("ACGT"), rng.integers(low, high), p=chances)]

    def exon():
        return piece(10, 13, [0.1, 0.4, 0.4, 0.1])

    bases, labels = [], []
    parts = [("O", piece(3, 25, [0.3, 0.2, 0.2, 0.3])), ("exon", exon())]
    for _ in range(rng.integers(0, 3)):
        parts += [("intron", ["G", "T", *piece(4, 8, [0.3, 0.1, 0.1, 0.5]), "A", "G"]), ("exon", exon())]
    parts.append(("O", piece(3, 25, [0.3, 0.2, 0.2, 0.3])))
    for label, drawn in parts:
        bases += drawn
        labels += ["O"] * len(drawn) if label == "O" else [f"B-{label}", *[f"I-{label}"] * (len(drawn) - 1)]
    return bases, labels


X, y = zip(*(strand(seed) for seed in range(80)))
X_new, y_new = zip(*(strand(seed) for seed in range(1000, 1060)))


def windows(strand):
    """Features of each base: itself and its neighbors, alone and in pairs."""
    padded = ["-", "-", *strand, "-", "-"]
    return [
        [f"{k}:{padded[t + k]}" for k in range(5)] + [f"{k}:{padded[t + k]}{padded[t + k + 1]}" for k in range(4)]
        for t in range(len(strand))
    ]


X, X_new = [windows(x) for x in X], [windows(x) for x in X_new]

# %% A chain of bases, and segments.
chain = rf.ChainCRF(scheme="BIO").fit(X, y)
segments = rf.SegmentCRF(scheme="BIO").fit(X, y)
scores = {"chain": chain.score(X_new, y_new), "segments": segments.score(X_new, y_new)}

# %% The same rules as everywhere: an intron stands between exons, a strand has a gene.
rules = [
    (r.segments("exon") >= 1).named("a gene"),
    (r.segments("exon") == r.segments("intron") + 1).named("introns stand between exons"),
    r.followed_by("intron", "exon").named("an exon follows an intron"),
]
found = segments.decode(X_new, rules=rules)
scores["segments, rules"] = segments.score(X_new, y_new, rules=rules)
for name, score in scores.items():
    print(f"{name:16s} span F1 {score:.3f}")
print(f"proved best under the rules: {sum(answer.status == 'optimal' for answer in found)} of {len(found)}")


# %% A picture: what length is worth for each kind of segment.
def picture(folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 2), layout="constrained")
    axes.barh(list(scores), list(scores.values()))
    axes.set(xlim=(0, 1), xlabel="span F1")
    figure.savefig(folder / "genes.png", dpi=120)
    print("picture:", folder / "genes.png")


picture(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
