"""Random rules, and what their compiled forms say of a labelling, read naively."""

from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from rulefield import rules as r
from rulefield.encode.schemes import allowed_transitions

LABEL_SETS = {
    "flat": (None, ["a", "b", "c"]),
    "four": (None, ["a", "b", "c", "d"]),
    "paths": (None, ["x/a", "x/b", "c"]),
    "bio": ("BIO", ["O", "B-a", "I-a", "B-b"]),
    "iob1": ("IOB1", ["O", "I-a", "B-a", "I-b"]),
    "bioes": ("BIOES", ["O", "S-a", "B-a", "E-a"]),
    "bilou": ("BILOU", ["O", "U-b", "B-a", "L-a"]),
    "tree": ("BIO", ["O", "B-x/B-a", "I-x/B-a", "I-x/I-a"]),
}
PATTERNS = {
    "flat": ["a", "b", "c", ["a", "b"], "*"],
    "four": ["a", "b", "c", "d", ["b", "c"]],
    "paths": ["x", "a", "b", "c", "x/a", "x/*", "**/a", ["a", "c"]],
    "bio": ["a", "b", "O", "B-a", "I-a", ["a", "b"], "B-*"],
    "iob1": ["a", "b", "O", "B-a", "I-a", "*"],
    "bioes": ["a", "O", "E-a", "S-*"],
    "bilou": ["a", "b", "O", "L-a", ["U-b", "O"]],
    "tree": ["x", "a", "O", "B-x", "x/B-a", "I-x/*", "*"],
}
TOKENS = ["p", "q", ","]
CONDITIONS = [r.token_equals(","), r.token_in("p", "q"), r.token_matches("^[pq]$"), r.token_equals("p")]


@dataclass(frozen=True)
class RuleCase:
    """Rules over one small input; ``allowed``, ``begin`` and ``end`` are the scheme's (mask potentials with them)."""

    labels: list
    scheme: str | None
    tokens: list
    rules: list

    @property
    def masks(self):
        return allowed_transitions(self.labels, self.scheme)

    def labellings(self):
        """Every labelling that the scheme allows, as numbers."""
        allowed, begin, end = self.masks
        for y in product(range(len(self.labels)), repeat=len(self.tokens)):
            good = not y or (begin[y[0]] and end[y[-1]])
            if good and all(allowed[i, j] for i, j in pairwise(y)):
                yield np.array(y, dtype=np.int64)

    def names(self, y):
        return [self.labels[i] for i in y]


# --- strategies ------------------------------------------------------------------------------


def numbers_over(pattern):
    """Random numbers: counts, sums, differences, multiples."""
    counts = st.builds(r.count, pattern, where=st.none() | st.sampled_from(CONDITIONS))
    atom = counts | st.builds(r.segments, pattern)
    return st.recursive(
        atom,
        lambda inner: st.one_of(
            st.builds(lambda a, b: a + b, inner, atom),
            st.builds(lambda a, b: a - b, inner, atom),
            st.builds(lambda k, a: k * a, st.integers(-2, 2), inner),
            st.builds(lambda a, k: a + k, inner, st.integers(-1, 1)),
        ),
        max_leaves=3,
    )


def comparisons_over(pattern):
    number = numbers_over(pattern)
    other = number | st.integers(-1, 3)
    signs = [lambda a, b: a <= b, lambda a, b: a >= b, lambda a, b: a == b]
    return st.builds(lambda sign, a, b: sign(a, b), st.sampled_from(signs), number, other)


def facts_over(pattern):
    level = st.sampled_from(["segment", "token"])
    one = [st.builds(f, pattern, level) for f in (r.present, r.absent, r.first, r.last)]
    two = [st.builds(f, pattern, pattern, level) for f in (r.before, r.eventually, r.followed_by)]
    some = st.dictionaries(st.sampled_from(["prev", "here", "next"]), pattern, min_size=1)
    at = st.builds(lambda c, q, given: r.at(c, require=q, **given), st.sampled_from(CONDITIONS), st.booleans(), some)
    return st.one_of(*one, *two, at)


def statements_over(pattern, depth=2):
    """Random rules of every family, hard, nested up to ``depth``."""
    atom = facts_over(pattern) | comparisons_over(pattern)
    if depth == 0:
        return atom
    part = statements_over(pattern, depth - 1)
    parts = st.lists(part, min_size=1, max_size=3)
    number = st.integers(0, 3)
    logic = st.one_of(
        st.builds(lambda p: r.all_of(*p), parts),
        st.builds(lambda p: r.any_of(*p), parts),
        st.builds(r.implies, part, part),
        st.builds(r.iff, part, part),
        st.builds(r.not_, part),
        st.builds(lambda k, p: r.exactly(k, *p), number, parts),
        st.builds(lambda k, p: r.at_most(k, *p), number, parts),
        st.builds(lambda k, p: r.at_least(k, *p), number, parts),
    )
    return atom | logic


@st.composite
def rules_over(draw, pattern, depth=2):
    """A random rule, hard or soft, paid by the unit or once."""
    rule = draw(statements_over(pattern, depth))
    weight = draw(st.sampled_from([None, 0.0, 0.3, 1.0, 2.5, 10.0]))
    if weight is None:
        return rule
    return rule.soft(weight, per=draw(st.sampled_from(["unit", "once"])))


@st.composite
def rule_cases(draw, max_tokens=4, max_rules=1, depth=2, min_tokens=0, sets=tuple(LABEL_SETS)):
    """A label set with its scheme, tokens, and rules over them."""
    name = draw(st.sampled_from(sets))
    scheme, labels = LABEL_SETS[name]
    pattern = st.sampled_from(PATTERNS[name])
    tokens = draw(st.lists(st.sampled_from(TOKENS), min_size=min_tokens, max_size=max_tokens))
    rules = draw(st.lists(rules_over(pattern, depth), min_size=1, max_size=max_rules))
    return RuleCase(labels, scheme, tokens, rules)


# --- naive readings of the compiled forms -----------------------------------------------------


def tally_amount(tally, classes, y):
    """The sum, term by term."""
    total = 0
    for t, (c, label) in enumerate(zip(classes, y)):
        total += tally.first[c, label] if t == 0 and tally.first is not None else tally.node[c, label]
        if t and tally.edge is not None:
            total += tally.edge[c, y[t - 1], label]
    return int(total)


def counters_amount(counters, classes, y):
    return sum(max(0, tally_amount(c.tally, classes, y) - c.bound) for c in counters)


def automaton_amounts(automaton, classes, y):
    """The amounts of all accepting runs (there must be exactly one)."""
    runs = [(s, int(amount)) for s, amount in enumerate(automaton.initial) if amount >= 0]
    for c, label in zip(classes, y):
        letter = int(automaton.letter[c, label])
        following = []
        for s, amount in runs:
            at = s * automaton.n_letters + letter
            for arc in range(automaton.arc_ptr[at], automaton.arc_ptr[at + 1]):
                following.append((int(automaton.arc_to[arc]), amount + int(automaton.arc_amount[arc])))
        runs = following
    return [amount + int(automaton.final[s]) for s, amount in runs if automaton.final[s] >= 0]


def rows_amount(rows, n, m, y):
    """Least total slack with the labelling fixed, by a small integer programme."""
    n_parts = n * m + max(n - 1, 0) * m * m
    x = np.zeros(n_parts)
    for t, label in enumerate(y):
        x[t * m + label] = 1
        if t + 1 < n:
            x[n * m + (t * m + label) * m + y[t + 1]] = 1
    n_rows, n_aux = len(rows.bound), rows.n_auxiliary
    if not n_rows:
        return 0
    matrix = coo_array((rows.value, (rows.row, rows.column)), shape=(n_rows, n_parts + n_aux)).tocsr()
    limit = rows.bound - matrix[:, :n_parts] @ x
    if not n_aux:
        assert (limit[~rows.may_slack] >= -1e-9).all()
        return round(float(np.maximum(-limit[rows.may_slack], 0).sum()))
    slack = np.flatnonzero(rows.may_slack)
    shape = (n_rows, len(slack))
    pay = coo_array((-np.ones(len(slack)), (slack, np.arange(len(slack)))), shape=shape)
    full = np.hstack([matrix[:, n_parts:].toarray(), pay.toarray()])
    cost = np.concatenate([np.zeros(n_aux), np.ones(len(slack))])
    high = np.concatenate([np.ones(n_aux), np.full(len(slack), np.inf)])
    result = milp(
        cost, constraints=LinearConstraint(full, ub=limit), bounds=Bounds(0, high), integrality=np.ones(len(cost))
    )
    assert result.success, result.message
    return round(result.fun)
