"""Cells of a ruled table
======================

Lines of handwriting on a ruled page, and one question: which lines make one cell? A line is the first of its cell (B), inside
it (I), the last (E) or the only one (S). Some rulings were not found by the scanner.

Run with ``python examples/table_cells.py [FOLDER]``; FOLDER gets the picture.
"""

# %% Pages: two columns of cells with one to four lines; one ruling in four is missing.
import sys
import tempfile
from pathlib import Path

import numpy as np

import rulefield as rf
from rulefield import rules as r
from rulefield.plots import draw_page


def page(seed):
    rng = np.random.default_rng(seed)
    boxes, labels, rulings = [], [], [[98, 0, 100, 400]]
    for left in (10, 110):
        at = 10.0
        for n in rng.integers(1, 5, size=6):
            if rng.random() > 0.25:
                rulings.append([left - 10, at - 4, left + 90, at - 3])
            for k in range(n):
                boxes.append([left, at, left + 60 + 8 * rng.normal(), at + 10])
                labels.append("S" if n == 1 else "B" if k == 0 else "E" if k == n - 1 else "I")
                at += 14 + 1.5 * rng.normal()
            at += 3
    return rf.formats.Page(boxes, 200, 300, separators=rulings, labels=labels, name=f"page {seed}")


train, new = [page(seed) for seed in range(20)], [page(100 + seed) for seed in range(20)]
gold = [page.labels for page in new]

# %% Lines alone, and lines with their rulings.
for separators in (False, True):
    tagger = rf.DocumentTagger(separators=separators).fit(train)
    print(f"{'with' if separators else 'without'} rulings: {tagger.score(new, gold):.3f} of the lines are right")

# %% What is certain: down a column, a cell that has begun goes on until it ends.
down = [
    r.along("below", r.followed_by(["B", "I"], ["I", "E"], level="token")).named("a cell goes on"),
    r.along("below", r.followed_by(["E", "S"], ["B", "S"], level="token")).named("a cell begins"),
]
found = tagger.decode(new, rules=down)
print(
    f"under rules: {tagger.score(new, gold, rules=down):.3f}; all proved best: {all(x.status == 'optimal' for x in found)}"
)
print("what speaks for the first label:", tagger.explain(new[0], rules=down)[0][:2])

# %% A picture: colors are predicted labels, red frames are mistakes.
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
draw_page(new[0], found[0].labels, gold=gold[0]).figure.savefig(folder / "table_cells.png", dpi=120)
print("picture:", folder / "table_cells.png")
