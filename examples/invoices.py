"""Invoices
========

Amounts look alike: net, tax and total are all numbers. Order and number of the fields tell them apart.

A parser learns from eight marked invoice lines; rules say what holds on every invoice; what it is unsure of is marked for
a person.

Run with ``python examples/invoices.py``.
"""

# %% Made-up invoice lines with spans of characters, as annotation tools export them.
import rulefield as rf
from rulefield import rules as r
from rulefield.datasets import make_invoices

texts, spans = make_invoices(8, seed=0)
new, gold = make_invoices(200, seed=1)
print(texts[0])
print([(texts[0][a:b], label) for a, b, label in spans[0]])

# %% What holds on every invoice. Hard rules are never broken; every answer comes with a proof.
rules = [
    (r.segments("total") == 1).named("one total"),
    (r.segments("net") == 1).named("one net amount"),
    (r.segments("tax") <= 1).named("at most one tax"),
    r.before("net", "total").named("net before total"),
    r.before("net", "tax").soft(2.0).named("net before tax"),
]
parser = rf.TextParser().fit(texts, spans)
print(f"without rules: F1 of fields {parser.score(new, gold, rules=[]):.3f}")
print(f"with rules:    F1 of fields {parser.score(new, gold, rules=rules):.3f}")

# %% One invoice, field by field, with the probability of each.
parse = parser.parse(new[3], rules=rules)
print(new[3])
print(parse)

# %% A table for the book-keeper: one column per field, the probability of the whole, broken rules.
table = parser.parse_column(new, rules=rules)
unsure = sorted(range(len(new)), key=lambda i: table["probability"][i])[:3]
for i in unsure:
    print(f"look at: {new[i]!r}  (p = {table['probability'][i]:.2f})")


# %% Arithmetic that no label model knows: net + tax = total shows which parses cannot be right.
def cents(text: str | list[str] | None) -> int:
    return int(text.replace(",", "").replace(".", "")) if isinstance(text, str) else 0


def adds_up(row: int) -> bool:
    return abs(cents(table["net"][row]) + cents(table["tax"][row]) - cents(table["total"][row])) <= 1


with_tax = [i for i in range(len(new)) if table["tax"][i]]
print(f"net + tax = total in {sum(map(adds_up, with_tax))} of {len(with_tax)} parsed invoices with a tax")
