"""Addresses
=========

A string goes in, fields and their probability come out, and no address fails for a repeated label.

Parsers of addresses raise an error when a label comes twice. Here "each field once" is a rule with a price: mostly obeyed,
broken where the text insists, and the probability of the whole says which rows a person should look at.

Run with ``python examples/addresses.py [FOLDER]``; FOLDER gets the picture.
"""

# %% Made-up addresses as people type them: lost commas and blanks, odd case, swapped letters, missing parts.
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_addresses

labeled, spans = make_addresses(60, seed=0, noise=0.8, messy=True)
texts, gold = make_addresses(120, seed=1, noise=0.8, messy=True)

# %% A parser.
parser = rf.TextParser().fit(labeled, spans)
print(parser.parse("59 ST JAMES PLACE,NEW YORK NY 10038"))


def is_right(parse: Any, row: list[tuple[int, int, str]]) -> bool:
    return {(s.start, s.end, s.label) for s in parse.spans} == set(row)


# %% "Each field once", at a price: how often it changes an answer, for better and for worse.
once = [r.each_at_most_once().soft(2.0).named("each field once")]
plain, ruled = (parser.parse_all(texts, rules=rules) for rules in ([], once))
for name, parses in (("without the rule", plain), ("each field once", ruled)):
    print(f"{name}: {np.mean([is_right(p, row) for p, row in zip(parses, gold)]):.1%} of the addresses are right")
repeated = sum(any(isinstance(value, list) for value in parse.fields.values()) for parse in plain)
still = sum(any(isinstance(value, list) for value in parse.fields.values()) for parse in ruled)
print(f"a field comes twice in {repeated} answers without the rule, in {still} with it; none of them is an error")

# %% Which rows should a person look at? Those that the model holds to be least likely.
chance = np.array([parse.probability for parse in ruled])
right = np.array([is_right(parse, row) for parse, row in zip(ruled, gold)])
order = np.argsort(chance)
for share in (0.1, 0.2, 0.4):
    looked = order[: int(share * len(order))]
    print(
        f"the least certain {share:.0%} hold {np.mean(~right[looked]):.0%} wrong rows; all rows {np.mean(~right):.0%}"
    )


# %% A picture: wrong rows found by looking at the least certain first.
def picture(folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
    share = np.arange(1, len(order) + 1) / len(order)
    axes.plot(share, np.cumsum(~right[order]) / max(1, (~right).sum()), label="least certain first")
    axes.plot(share, share, linestyle="--", label="at random")
    axes.set(xlabel="share of rows looked at", ylabel="share of wrong rows found")
    axes.legend()
    figure.savefig(folder / "addresses.png", dpi=120)
    print("picture:", folder / "addresses.png")


picture(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
