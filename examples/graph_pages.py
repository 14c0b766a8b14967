"""Pages and blocks
================

Two types of nodes that help each other, and facts that are certain.

A block's looks say little about whether it is a title; the kind of its page says more, and is not known either. The two
are learned together. On a cover exactly one block is the title, on other pages there is none, whatever the scores say.

Run with ``python examples/graph_pages.py``.
"""

import numpy as np

import rulefield as rf
from rulefield import rules as r

rng = np.random.default_rng(0)


def document(n_pages=4, n_blocks=3):
    """Draw pages in any order: one is the cover, and one block of the cover is its title."""
    cover = np.arange(n_pages) == rng.integers(n_pages)
    title = np.zeros((n_pages, n_blocks), dtype=bool)
    title[cover, rng.integers(n_blocks)] = True
    size = title.ravel() * 2.0 + rng.normal(size=n_pages * n_blocks)
    density = ~cover + 0.8 * rng.normal(size=n_pages)
    block = np.arange(n_pages * n_blocks)
    on_page = np.stack([block, block // n_blocks], axis=1)
    graph = rf.graphs.TypedGraph(
        nodes={
            "block": np.stack([size, np.ones_like(size)], axis=1),
            "page": np.stack([density, np.ones(n_pages)], axis=1),
        },
        edges={("block", "page"): on_page},
        relations={"blocks": ("page", "block", on_page[:, ::-1])},
    )
    names = {"block": np.where(title.ravel(), "title", "text"), "page": np.where(cover, "cover", "body")}
    return graph, names


graphs, labels = zip(*[document() for _ in range(120)])
crf = rf.GraphCRF(l2=0.1).fit(graphs[:12], labels[:12])
rules = [
    r.for_each("page", r.iff(r.this().is_("cover"), r.exactly(1, r.related("blocks").is_("title")))),
    r.for_each("page", r.at_most(1, r.related("blocks").is_("title"))),
    r.exactly(1, r.nodes("page").is_("cover")).named("one cover"),
]
for name, chosen in (("scores alone", []), ("with rules", rules)):
    shares = crf.score_by_type(graphs[60:], labels[60:], rules=chosen)
    print(f"{name}: blocks {shares['block']:.3f}, pages {shares['page']:.3f}")
print("rules as text:", *rules, sep="\n  ")
