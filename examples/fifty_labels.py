"""Fifty labeled citations and five rules that you know
=====================================================

What to do, in order of worth.

Label 25, 50, 100, 200 citations and compare: the chain alone; rules that you write, at a price that knows what the chain
already knows (``.soft("auto")``); rules found in the labels; and citations without labels of which something holds on
average.

Run with ``python examples/fifty_labels.py 25 50 100 200``; by default with 50.
"""

# %% A few labeled citations, more without labels, some to look at the outcome.
import sys

from sklearn.base import clone

import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_citations

X, y = make_citations(500, seed=5, noise=0.6)
pool, test = slice(200, 300), slice(300, 500)  # the first ones are labeled
sizes = [int(word) for word in sys.argv[1:] if word.isdigit()] or [50]
settings = {"scheme": "BIO", "l2": 0.5}

# %% Five things that anybody knows of citations. Prices are found, so a rule that is wrong costs next to nothing.
written = [
    r.each_at_most_once("author", "title", "date").soft("auto"),
    (r.segments("title") >= 1).soft("auto"),
    (r.segments("author") >= 1).soft("auto"),
    r.before("author", "pages").soft("auto").named("authors before pages"),
    r.at(r.token_matches(r"^\(?(19|20)\d\d\)?\W*$"), here="date").soft("auto").named("a year is a date"),
]

# %% Without labels, but not without knowledge: citations have about one title, and authors.
known_on_average = [
    r.expected(r.segments("title")).between(0.95, 1.05),
    r.expected(r.segments("author")).between(0.95, 1.05),
]


def with_unlabeled(n: int) -> rf.ChainCRF:
    """Learn from ``n`` labeled citations and a pool of which nothing but two averages is known."""
    tokens = X[:n] + X[pool]
    labels = y[:n] + [[None] * len(x) for x in X[pool]]
    return rf.ChainCRF(**settings, expectations=known_on_average, max_iter=20, tol=1e-3).fit(tokens, labels)


# %% The four, side by side: share of tokens, and of whole citations, that are right.
for n in sizes:
    chain = rf.ChainCRF(**settings)
    models = {
        "chain": clone(chain).fit(X[:n], y[:n]),
        "+ five written rules": rf.RuledCRF(chain, rules=written).fit(X[:n], y[:n]),
        "+ rules found": rf.RuledCRF(chain).fit(X[:n], y[:n]),
        "+ averages, no labels": with_unlabeled(n),
    }
    print(f"{n} labeled citations: tokens, whole citations")
    for name, model in models.items():
        found = model.predict(X[test])
        tokens = rf.metrics.token_accuracy(y[test], found)
        whole = rf.metrics.sequence_accuracy(y[test], found)
        print(f"  {name:22s} {tokens:.3f}  {whole:.3f}")
