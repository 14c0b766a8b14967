"""Random rules, and what their compiled forms say of a labeling, read naively."""

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
PLACES = ["prev", "here", "next"]
TOKENS = ["p", "q", ","]
CONDITIONS = [
    r.token_equals(","),
    r.token_in("p", "q"),
    r.token_matches("^[pq]$"),
    r.token_equals("p"),
    r.token_not(r.token_equals("p")),
    r.previous_token(r.token_equals(",")),
    r.token_all(r.next_token(r.token_in("p", ",")), r.token_not(r.first_token())),
    r.last_token(),
]


@dataclass(frozen=True)
class RuleCase:
    """Rules over one small input; amounts are promised only for what the scheme allows: mask potentials."""

    labels: list
    scheme: str | None
    tokens: list
    rules: list

    @property
    def masks(self):
        return allowed_transitions(self.labels, self.scheme)

    def labelings(self):
        """Every labeling that the scheme allows, as numbers."""
        allowed, begin, end = self.masks
        for y in product(range(len(self.labels)), repeat=len(self.tokens)):
            good = not y or (begin[y[0]] and end[y[-1]])
            if good and all(allowed[i, j] for i, j in pairwise(y)):
                yield np.array(y, dtype=np.int64)

    def names(self, y):
        return [self.labels[i] for i in y]


# --- random rules ----------------------------------------------------------------------------
# Drawn by a seeded generator, not by hypothesis strategies, which lean toward the simplest rules and inputs.


def pick(rng, options):
    return options[rng.integers(len(options))]


def random_number(rng, patterns):
    """A count, or a sum, difference or multiple of counts."""
    number = 0
    for _ in range(rng.integers(1, 4)):
        where = pick(rng, CONDITIONS) if rng.random() < 0.3 else None
        pattern = pick(rng, patterns)
        term = r.count(pattern, where) if rng.random() < 0.5 else r.segments(pattern)
        number = number + pick(rng, [1, 1, 1, -1, -1, 2, -3]) * term
    return number


def random_comparison(rng, patterns):
    left = random_number(rng, patterns)
    right = random_number(rng, patterns) if rng.random() < 0.2 else int(rng.integers(-1, 4))
    return pick(rng, [lambda: left <= right, lambda: left >= right, lambda: left == right])()


def random_fact(rng, patterns):
    level = pick(rng, ["segment", "token"])
    one_task = not isinstance(patterns[0], dict)
    kind = rng.integers(9 if one_task else 8)
    if kind == 8:
        return r.each_at_most_once()
    if kind < 4:
        return (r.present, r.absent, r.first, r.last)[kind](pick(rng, patterns), level)
    if kind < 7:
        return (r.before, r.eventually, r.followed_by)[kind - 4](pick(rng, patterns), pick(rng, patterns), level)
    places = pick(
        rng, [["prev"], ["here"], ["next"], ["prev", "here"], ["here", "next"], ["prev", "next"]] * 2 + [PLACES]
    )
    given = {place: pick(rng, patterns) for place in places}
    if rng.random() < 0.4:
        return r.at(pick(rng, CONDITIONS), require=True, **given)
    return r.at(pick(rng, CONDITIONS), then=pick(rng, [None, *places]), **given)


def random_statement(rng, patterns, depth):
    """A hard rule of any family, nested at most ``depth`` levels."""
    if depth == 0 or rng.random() < 0.3:
        return random_fact(rng, patterns) if rng.random() < 0.7 else random_comparison(rng, patterns)
    parts = [random_statement(rng, patterns, depth - 1) for _ in range(rng.integers(1, 4))]
    two = (parts * 2)[:2]
    number = int(rng.integers(4))
    return pick(
        rng,
        [
            lambda: r.all_of(*parts),
            lambda: r.any_of(*parts),
            lambda: r.implies(*two),
            lambda: r.iff(*two),
            lambda: r.not_(parts[0]),
            lambda: r.exactly(number, *parts),
            lambda: r.at_most(number, *parts),
            lambda: r.at_least(number, *parts),
        ],
    )()


def random_rule(rng, patterns, depth=2, hard=0.3):
    """A random rule; soft ones are paid by the unit or once."""
    rule = random_statement(rng, patterns, depth)
    if rng.random() < hard:
        return rule
    return rule.soft(pick(rng, [0.0, 0.3, 1.0, 2.5, 10.0]), per=pick(rng, ["unit", "once"]))


def random_case(rng, max_tokens=4, max_rules=1, depth=2, sets=tuple(LABEL_SETS), hard=0.3):
    """A label set with its scheme, tokens (0 of them now and then), and rules over them."""
    name = pick(rng, sets)
    scheme, labels = LABEL_SETS[name]
    n = 0 if rng.random() < 0.03 else int(rng.integers(1, max_tokens + 1))
    tokens = [pick(rng, TOKENS) for _ in range(n)]
    rules = [random_rule(rng, PATTERNS[name], depth, hard) for _ in range(rng.integers(1, max_rules + 1))]
    return RuleCase(labels, scheme, tokens, rules)


def rule_cases(**options):
    """Hypothesis strategy of :func:`random_case`."""
    return st.integers(0, 2**32 - 1).map(lambda seed: random_case(np.random.default_rng(seed), **options))


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
    """Least total slack with the labeling fixed, by a small integer program."""
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


# --- all labelings at once (in lexicographic order) -------------------------------------------


def all_scores(potentials):
    """Scores of all labelings of a chain."""
    n, m = potentials.unary.shape
    scores = np.zeros(1)
    for t in range(n):
        step = potentials.pairwise[np.arange(len(scores)) % m] if t else np.zeros((1, m))
        scores = (scores[:, None] + step + potentials.unary[t]).ravel()
    return scores


def all_amounts(rule, m):
    """Amounts of a compiled rule for all labelings."""
    if rule.tally is not None:
        return _all_tallies(rule.tally, rule.token_class, m)
    if rule.counters:
        return sum(np.maximum(_all_tallies(c.tally, rule.token_class, m) - c.bound, 0) for c in rule.counters)
    return _all_runs(rule.automaton, rule.token_class, m)


def _all_tallies(tally, classes, m):
    total = np.zeros(1, dtype=np.int64)
    for t, c in enumerate(classes):
        node = tally.first if t == 0 and tally.first is not None else tally.node
        step = tally.edge[c][np.arange(len(total)) % m] if t and tally.edge is not None else 0
        total = (total[:, None] + step + node[c]).ravel()
    return total


def _all_runs(automaton, classes, m):
    """Follow every run of every labeling; each must have exactly one that ends well."""
    state = np.flatnonzero(automaton.initial >= 0)
    path, amount = np.zeros(len(state), dtype=np.int64), automaton.initial[state].astype(np.int64)
    pointer = automaton.arc_ptr.astype(np.int64)
    for c in classes:
        cell = (state[:, None] * automaton.n_letters + automaton.letter[c][None, :]).ravel()
        arcs = pointer[cell + 1] - pointer[cell]
        first = np.repeat(pointer[cell] - np.cumsum(arcs) + arcs, arcs)
        arc = first + np.arange(arcs.sum())
        path = np.repeat((path[:, None] * m + np.arange(m)).ravel(), arcs)
        amount = np.repeat(np.repeat(amount, m), arcs) + automaton.arc_amount[arc]
        state = automaton.arc_to[arc].astype(np.int64)
    good = automaton.final[state] >= 0
    assert sorted(path[good]) == list(range(m ** len(classes)))
    amounts = np.zeros(m ** len(classes), dtype=np.int64)
    amounts[path[good]] = amount[good] + automaton.final[state[good]]
    return amounts


def best_objective(problem):
    """Greatest score less costs over all labelings; -inf where none obeys the hard rules."""
    objective = all_scores(problem.potentials)
    for rule in problem.rules:
        amounts = all_amounts(rule, problem.potentials.n_states)
        paid = np.minimum(amounts, 1) if rule.once else amounts
        objective = objective - np.where(paid > 0, rule.weight * np.maximum(paid, 1), 0.0)
    return float(objective.max())
