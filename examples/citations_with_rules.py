"""Citations with rules
====================

Train a chain, write down what you know, and get the best labeling that respects it.

A chain learned from few citations makes mistakes that anybody can see: two titles, authors in two places. A handful of
rules forbids or prices them. Every answer comes with a certificate: no labeling that obeys the rules is better.

Run with ``python examples/citations_with_rules.py [FOLDER]``; FOLDER gets the picture.
"""

# %% Data: made-up citations, noisy, and few of them.
import sys
import tempfile
from collections import Counter
from pathlib import Path

import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_citations

X, y = make_citations(40, seed=0, noise=0.6)
X_new, y_new = make_citations(100, seed=1, noise=0.6)

# %% A plain chain. The scheme makes impossible steps such as O, I-title impossible.
crf = rf.ChainCRF(scheme="BIO", l2=0.5, max_iter=40).fit(X, y)
print(f"chain alone: span F1 {crf.score(X_new, y_new):.3f}")

# %% What everybody knows of citations. Hard unless .soft(price).
rules = [
    (r.segments("title") <= 1).named("at most one title"),
    (r.segments("author") <= 1).soft(2.0).named("authors stand together"),
    (r.segments("date") <= 1).soft(2.0).named("one date"),
    (r.segments("journal") + r.segments("booktitle") <= 1).soft(2.0).named("one venue"),
    r.implies(r.present("journal"), r.absent("booktitle")).soft(1.0),
    r.implies(r.present("volume"), r.present("journal")).soft(0.5).named("volumes belong to journals"),
]
for checked in r.check(rules, X, y):
    print(checked)  # how often each holds in the training labels

# %% Decode under the rules. Each result says its score, a bound on any better one, and which rules it breaks.
plain = crf.decode(X_new)
ruled = crf.decode(X_new, rules=rules)
print("certificates:", dict(Counter(result.status for result in ruled)))
print("engines:     ", dict(Counter(result.engine for result in ruled)))
f1 = rf.metrics.span_f1(y_new, [result.labels for result in ruled])
print(f"with rules:  span F1 {f1:.3f}")

# %% What the rules changed, and what it cost.
changed = [i for i in range(len(X_new)) if plain[i].labels != ruled[i].labels]
print(f"{len(changed)} of {len(X_new)} citations changed")
for i in changed[:1]:
    for word, before, after, gold in zip(X_new[i], plain[i].labels, ruled[i].labels, y_new[i]):
        print(f"  {word:20s} {before:14s} {after if after != before else '':14s} {gold if gold != after else ''}")
    print(f"  the chain's score fell by {plain[i].score - ruled[i].score:.2f}; gap to the bound {ruled[i].gap:.1e}")
    for broken in ruled[i].broken:
        print(f"  still breaks {broken.rule!r}: paid {broken.cost:.2f}")


# %% A picture: how often each rule is broken, before and after.
def picture(folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    counts = [[c.broken for c in r.check(rules, X_new, [p.labels for p in found])] for found in (plain, ruled)]
    counts.append([c.broken for c in r.check(rules, X_new, y_new)])
    figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
    for k, (name, row) in enumerate(zip(("chain", "chain with rules", "gold labels"), counts)):
        axes.barh([i + 0.27 * (1 - k) for i in range(len(rules))], row, height=0.25, label=name)
    axes.set_yticks(range(len(rules)), [rule.label[:44] for rule in rules])
    axes.set_xlabel(f"citations of {len(X_new)} that break the rule")
    axes.legend()
    figure.savefig(folder / "citations_with_rules.png", dpi=120)
    print("picture:", folder / "citations_with_rules.png")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="rulefield-"))
    target.mkdir(parents=True, exist_ok=True)
    try:
        picture(target)
    except ImportError:
        print("no picture: matplotlib is not installed")
