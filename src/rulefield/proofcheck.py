"""Check proofs that no labeling is worth more than a bound: ``python proofcheck.py FILE...``.

A file (see docs/proofs.md) states a problem, a witness, a bound, and a tree whose leaves cover all labelings. All numbers are
exact. A rule costs weight x amount (or weight, once); a hard one (weight null) forbids amounts above 0.

Why a leaf of a sequence proves the bound: for every labeling of the leaf above the bound, its lattice always holds a path
worth no less. A multiplier 0 <= y <= weight keeps that, because y (sum - bound) is never more than a counter costs; so does a
rule multiplied in, whose true cost is paid, and so does dropping what lies on no path above the bound. If a leaf says "zero",
all scores and soft weights are 0: a labeling that obeys the hard rules is worth 0 or more. A leaf of a graph moves scores by
messages, which changes no total, and adds up maxima; or it eliminates nodes, which gives the maximum itself.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from functools import partial
from math import inf, prod
from typing import Any

FORMAT, VERSION, LARGE = "rulefield-proof", 1, 1 << 40  # no amount, bound or class is larger
PAID = (LARGE * LARGE,)  # the state of a rule that is paid once and has been paid


def need(holds: bool, what: str) -> None:
    """Refuse the file if something does not hold."""
    if not holds:
        raise ValueError(what)


def nested(value: Any, shape: tuple[int | None, ...], read: Callable[[Any], Any]) -> Any:
    """Return nested lists of these lengths (None: any), each number read by ``read``."""
    if not shape:
        return read(value)
    need(type(value) is list and shape[0] in (None, len(value)), "a list is missing or has a wrong length")
    return [nested(each, shape[1:], read) for each in value]


def array(value: Any, shape: tuple[int | None, ...], low: int, high: int) -> Any:
    """Return nested lists of whole numbers in low..high."""
    return nested(value, shape, lambda x: x if type(x) is int and low <= x <= high else need(False, "a wrong number"))


def bits_of(value: Any) -> int:
    """Return the least b so that all numbers in nested lists and objects are whole numbers of 2 ** -b."""
    if type(value) in (list, dict):
        return max((bits_of(each) for each in (value if type(value) is list else value.values())), default=0)
    return value.as_integer_ratio()[1].bit_length() - 1 if type(value) is float else 0


def in_units(value: Any, bits: int, factor: int) -> Any:
    """Return a number as a whole number of 2 ** -bits, times a factor; null (forbidden, or no limit) stays None."""
    need(value is None or type(value) in (int, float), f"{value!r} is not a number")
    above, below = (value or 0).as_integer_ratio()
    return None if value is None else factor * (above << bits) // below


class Counter:
    """The excess max(0, sum - bound) of a sum over labels and steps; tokens of one class share their tables."""

    def __init__(self, text: Any, classes: list[int], m: int):
        self.classes, self.known = classes, dict[Any, list[int]]()
        self.bound = array(text["bound"], (), -LARGE, LARGE)
        self.node = array(text["node"], (None, m), -LARGE, LARGE)
        self.first = array(text.get("first") or text["node"], (len(self.node), m), -LARGE, LARGE)
        need(max(classes) < len(self.node), "a tally has too few classes")
        self.edge = array(text.get("edge") or [], (len(self.node) if text.get("edge") else 0, m, m), -LARGE, LARGE)

    def gains(self, t: int, before: int) -> list[int]:
        """Return what labels at token t add, with the step to it."""
        key = t == 0, self.classes[t], before if self.edge else 0
        if key not in self.known:
            node = (self.node if t else self.first)[key[1]]
            step = self.edge[key[1]][before] if t and self.edge else [0] * len(node)
            self.known[key] = [x + y for x, y in zip(node, step)]
        return self.known[key]


class Automaton:
    """States, the letter that a class of tokens reads from each label, and arcs[state][letter] = [[to, amount]]."""

    def __init__(self, text: Any, classes: list[int], m: int):
        self.classes, self.initial = classes, array(text["initial"], (None,), -1, LARGE)
        self.final = array(text["final"], (len(self.initial),), -1, LARGE)
        self.arcs = array(text["arcs"], (len(self.initial), None, None, 2), 0, LARGE)
        self.letter = array(text["letter"], (None, m), 0, min(len(row) for row in self.arcs) - 1)
        need(max(classes) < len(self.letter), "an automaton has too few classes")
        need(all(x[0] < len(self.arcs) for row in self.arcs for cell in row for x in cell), "an arc goes to no state")

    def after(self, t: int, label: int, states: Iterable[int]) -> list[tuple[int, int, int]]:
        """Return (from, to, amount) of the arcs that read a label at token t."""
        return [(q, to, x) for q in states for to, x in self.arcs[q][self.letter[self.classes[t]][label]]]


class Rule:
    """A rule over n tokens of m labels; ``weight`` None: hard. A ``plain`` sum is paid on the way, or ``forbids``."""

    def __init__(self, text: Any, units: Any, n: int, m: int):
        self.weight, classes = units(text["weight"]), array(text["classes"], (n,), 0, LARGE)
        self.once = bool(text.get("once")) and self.weight is not None  # any amount breaks a hard rule
        need(self.weight is None or self.weight >= 0, "a weight is negative")
        need(sum(form in text for form in ("tally", "counters", "automaton")) == 1, "a rule has not exactly one form")
        sums = [text["tally"] | {"bound": 0}] if "tally" in text else text.get("counters", [])
        self.counters = [Counter(each, classes, m) for each in sums]
        self.automaton: Any = Automaton(text["automaton"], classes, m) if "automaton" in text else None
        self.plain = "tally" in text and self.weight is not None and not self.once
        tables = [table for c in self.counters for table in [c.node, c.first, *c.edge]]
        self.forbids = self.weight is None and "tally" in text and all(min(row) >= 0 for x in tables for row in x)

    def cost(self, amount: int) -> Any:
        """Return what an amount costs; None: forbidden."""
        paid = min(amount, 1) if self.once else amount
        return None if self.weight is None and paid else (self.weight or 0) * paid


class Lattice:
    """Nodes by token: labels, arcs [token][node before] of (node, score), the first from one root, best ways ahead."""

    def __init__(self, labels: list[list[int]], arcs: list[list[list[tuple[int, int]]]]):
        self.labels, self.arcs, self.ahead = labels, arcs, list[list[Any]]()

    def charge(self, terms: list[tuple[Counter, int]]) -> None:
        """Take rate x sum off every path, for all (counter, rate)."""
        known: dict[Any, list[int]] = {}
        for t, here in enumerate(self.labels if terms else []):
            classes = (t == 0, *(counter.classes[t] for counter, _ in terms))
            for i, before in enumerate(self.labels[t - 1] if t else [0]):
                if (classes, before) not in known:
                    gains = ([rate * x for x in counter.gains(t, before)] for counter, rate in terms)
                    known[classes, before] = [sum(each) for each in zip(*gains)]
                row = known[classes, before]
                self.arcs[t][i] = [(j, s - row[here[j]]) for j, s in self.arcs[t][i]]

    def best(self, floor: float, rule: Rule | None = None, rates: Any = None) -> int | None:
        """Let paths pay a rule (its counters in ``rates``), drop those not above the floor; return the best worth."""
        if rule:
            self.multiply((Running if rule.automaton else Counting)(self, rule, rates), floor)
        ahead: list[list[Any]] = [[0] * len(self.labels[-1])]
        for layer in reversed(self.arcs):
            last = ahead[-1]
            ahead.append([max([s + last[j] for j, s in arcs if last[j] is not None], default=None) for arcs in layer])
        top, self.ahead = ahead.pop()[0], ahead[::-1]
        self.multiply(None, floor)
        return None if top is None or top <= floor else int(top)

    def multiply(self, reader: "Counting | Running | None", floor: float) -> None:
        """Split nodes by the state of a rule that is paid exactly from now on, and drop what is not worth ``floor``."""
        reach: dict[tuple[int, Any], int] = {(0, None): 0}
        labels, arcs = [], []
        for t, (layer, ahead) in enumerate(zip(self.arcs, self.ahead)):
            after, place = dict[tuple[int, Any], int](), dict[tuple[int, Any], int]()
            arcs.append([list[tuple[int, int]]() for _ in reach])
            for own, ((i, state), so_far) in zip(arcs[t], reach.items()):
                for j, s in layer[i]:
                    moves = reader.moves(t, i, j, state) if reader and state is not PAID else [(state, 0, 0)]
                    for to, cost, more in moves:
                        there = so_far + s - cost
                        if ahead[j] is not None and there + ahead[j] + more > floor:
                            own.append((place.setdefault((j, to), len(place)), s - cost))
                            after[j, to] = max(after.get((j, to), there), there)
            labels.append([self.labels[t][j] for j, _ in after])
            self.ahead[t] = [ahead[j] for j, _ in after]
            reach = after
        self.labels, self.arcs = labels, arcs


class Counting:
    """Counters of a rule. The state holds their sums, clipped to what still decides; sure excess is paid at once."""

    def __init__(self, lattice: Lattice, rule: Rule, rates: dict[int, int]):
        self.rule, self.labels = rule, lattice.labels
        self.parts = [(rule.counters[k], rate) for k, rate in rates.items()]
        self.spans = [[[(c.bound, c.bound)] * len(lattice.labels[-1])] for c, _ in self.parts]
        for span, (c, _) in zip(self.spans, self.parts):
            for t in range(len(self.labels) - 1, 0, -1):
                last, here, layer = span[0], self.labels[t], []
                for before, arcs in zip(self.labels[t - 1], lattice.arcs[t]):
                    gains = c.gains(t, before)
                    ends = [(last[j][0] - gains[here[j]], last[j][1] - gains[here[j]]) for j, _ in arcs]
                    layer.append((min(low for low, _ in ends), max(high for _, high in ends)))
                span.insert(0, layer)

    def moves(self, t: int, i: int, j: int, state: Any) -> list[tuple[Any, int, int]]:
        """Return the next state, its cost, and what charges in the ways ahead may give back."""
        values, amount, back, more = [], 0, 0, 0
        before, label = self.labels[t - 1][i] if t else 0, self.labels[t][j]
        for k, (c, rate) in enumerate(self.parts):
            gain, (low, high) = c.gains(t, before)[label], self.spans[k][t][j]
            value = gain + (state[k] if state else 0)
            amount += max(0, value - high)
            values.append(min(max(value, low), high))
            back += rate * gain
            more += rate * (c.bound - values[k])
        cost = self.rule.cost(amount)
        return [] if cost is None else [(PAID if self.rule.once and amount else tuple(values), cost - back, more)]


class Running:
    """A rule that is read by its automaton: the state is that of a run."""

    def __init__(self, lattice: Lattice, rule: Rule, _: dict[int, int]):
        self.rule, self.a, self.labels = rule, rule.automaton, lattice.labels
        self.least: list[list[Any]] = [[None if end < 0 else end for end in self.a.final]]
        for t in range(len(self.labels) - 1, 0, -1):  # the least amount of what is to come after token t - 1
            ways: list[list[int]] = [[] for _ in self.a.final]
            for q, to, amount in (x for b in {*self.labels[t]} for x in self.a.after(t, b, range(len(ways)))):
                ways[q] += [] if self.least[0][to] is None else [amount + self.least[0][to]]
            self.least.insert(0, [min(way, default=None) for way in ways])

    def moves(self, t: int, i: int, j: int, state: Any) -> list[tuple[Any, int, int]]:
        """Return the next states, each with its cost and minus what is sure to be paid later."""
        starts, found = [state[0]] if state else [q for q, x in enumerate(self.a.initial) if x >= 0], list[Any]()
        for q, to, amount in self.a.after(t, self.labels[t][j], starts):
            later, amount = self.least[t][to], amount + (0 if state else self.a.initial[q])
            if later is not None:
                amount, later = (amount, later) if t < len(self.labels) - 1 else (amount + later, 0)
                cost, rest = self.rule.cost(amount), self.rule.cost(later)
                paid = self.rule.once and amount > 0
                if cost is not None and rest is not None:
                    found.append((PAID if paid else (to,), cost, 0 if paid else -rest))
        return found


class Sequence:
    """A layered lattice and rules over its labels; a chain (scores of labels and steps) is made into one."""

    def __init__(self, text: Any, units: Any):
        self.arcs = list[Any]()
        if "chain" in text:
            unary = nested(text["chain"]["unary"], (None, None), units)
            m, steps = len(unary[0]), nested(text["chain"]["pairwise"], (None, len(unary[0]), len(unary[0])), units)
            need({len(u) for u in unary} == {m} and len(steps) in (1, len(unary) - 1), "scores of a chain do not fit")
            self.labels = [[*range(m)] for _ in unary]
            for t, row in enumerate(unary):
                here = [(b, u) for b, u in enumerate(row) if u is not None]
                table = steps[min(t, len(steps)) - 1] if t else [[0] * m]
                self.arcs.append([[(b, p[b] + u) for b, u in here if p[b] is not None] for p in table])
        else:
            m = array(text["lattice"]["n_labels"], (), 1, LARGE)
            self.labels = array(text["lattice"]["labels"], (None, None), 0, m - 1)
            for t, arcs in enumerate(nested(text["lattice"]["arcs"], (len(self.labels), None, 3), lambda x: x)):
                self.arcs.append([[] for _ in (self.labels[t - 1] if t else [0])])
                for i, j, s in arcs:
                    to = array(j, (), 0, len(self.labels[t]) - 1)
                    self.arcs[t][array(i, (), 0, len(self.arcs[t]) - 1)].append((to, units(s) + 0))
        self.sizes = [m] * len(self.labels)
        self.rules = [Rule(rule, units, len(self.labels), m) for rule in text["rules"]]
        exact = [[r, *range(len(rule.counters))] for r, rule in enumerate(self.rules) if not rule.plain]
        self.whole = {"steps": [{"exact": each} for each in exact]}

    def lattice(self, allowed: list[set[int]]) -> Lattice:
        """Return the lattice of the labels that are allowed, plain sums paid."""
        sums, arcs = [rule.counters[0] for rule in self.rules if rule.forbids], list[Any]()
        for t, here in enumerate(self.labels):
            before = self.labels[t - 1] if t else [0]
            ok = {a: {b for b in allowed[t] if all(c.gains(t, a)[b] <= 0 for c in sums)} for a in {*before}}
            arcs.append([[(j, s) for j, s in x if here[j] in ok[a]] for a, x in zip(before, self.arcs[t])])
        lattice = Lattice([*self.labels], arcs)
        lattice.charge([(rule.counters[0], rule.weight) for rule in self.rules if rule.plain])
        return lattice

    def leaf(self, leaf: Any, allowed: list[set[int]], floor: float, units: Any) -> Any:
        """Return what the best path left above the floor is worth, and all labels left; None if nothing is left."""
        lattice, rules, rates = self.lattice(allowed), self.rules, dict[tuple[int, int], int]()
        waiting = {(r, k) for r, rule in enumerate(rules) for k in range(len(rule.counters) or 1) if not rule.plain}
        top = lattice.best(floor)
        for step in leaf["steps"] if top is not None else []:
            if "exact" in step:
                r, *which = array(step["exact"], (None,), 0, LARGE)
                own, named = {k: rates.pop((r, k), 0) for k in which}, {(r, k) for k in which or [0]}
                need(named <= waiting, "a rule is multiplied in that does not wait for it")
                waiting -= named
                need(not rules[r].once or all(q != r for q, _ in waiting), "a rule paid once must be paid as a whole")
            else:
                old, rates = rates, {(r, k): units(y) for r, k, y in step["multipliers"]}
                need(rates.keys() <= waiting, "a multiplier has no counter that waits for it")
                for (r, _), y in rates.items():
                    most = y if rules[r].weight is None else 0 if rules[r].once else rules[r].weight
                    need(rules[r].automaton is None and 0 <= y <= most, "a multiplier is not allowed")
                moved = {key: rates.get(key, 0) - old.get(key, 0) for key in [*rates, *old]}
                lattice.charge([(rules[r].counters[k], y) for (r, k), y in moved.items()])
            above = floor - sum(y * rules[q].counters[k].bound for (q, k), y in rates.items())
            top = lattice.best(above, rules[r], own) if "exact" in step else lattice.best(above)
            if top is None:
                break
        return None if top is None else (top, [{*labels} for labels in lattice.labels])


class Graph:
    """Nodes with scores, and parts over several of them: edges with scores, or rules."""

    def __init__(self, text: Any, units: Any):
        self.unary, self.whole = nested(text["unary"], (None, None), units), {"messages": list[Any]()}
        self.sizes, self.parts = [len(u) for u in self.unary], list[tuple[list[int], Any, Rule | None]]()
        for part in text["parts"]:
            nodes = array(part["nodes"], (None,), 0, len(self.sizes) - 1)
            fits = len({*nodes}) == len(nodes) > 0 and "tally" not in part
            need(fits and ("scores" not in part or len(nodes) == 2), "a part of a graph has the wrong form")
            table = nested(part["scores"], tuple(self.sizes[v] for v in nodes), units) if "scores" in part else None
            self.parts.append((nodes, table, None if table else Rule(part, units, len(nodes), max(self.sizes))))

    def part(self, p: int, allowed: list[set[int]], given: list[list[int]]) -> int | None:
        """Return the best score of a part, less the messages that it gives to its nodes."""
        nodes, table, rule = self.parts[p]
        rows, arcs = [[*allowed[v]] for v in nodes], list[Any]()
        for k, row in enumerate(rows):
            scores = [[table[a][b] if k and table else 0 for b in row] for a in (rows[k - 1] if k else [0])]
            arcs.append([[(j, s - given[k][row[j]]) for j, s in enumerate(x) if s is not None] for x in scores])
        lattice = Lattice(rows, arcs)
        top = lattice.best(-inf)
        return (
            lattice.best(-inf, rule, dict.fromkeys(range(len(rule.counters)), 0)) if rule and top is not None else top
        )

    def eliminated(self, order: list[int], kept: list[set[int]]) -> Any:
        """Return the best total without rules, which only cost: nodes leave one by one, the best over their labels stays."""
        tables: list[Any] = [([v], [self.unary[v][b] for b in row]) for v, row in enumerate(kept)]
        for (i, j), scores in [(nodes, table) for nodes, table, _ in self.parts if table]:
            worths = [scores[a][b] for a in kept[i] for b in kept[j]]
            tables.append(([i, j], [-inf if x is None else x for x in worths]))
        for v in order:
            own, tables = [x for x in tables if v in x[0]], [x for x in tables if v not in x[0]]
            scope = [*dict.fromkeys(u for nodes, _ in own for u in nodes if u != v), v]
            total: list[Any] = [0] * prod(len(kept[u]) for u in scope)
            for nodes, worths in own:
                places = [0]
                for u in scope:
                    step = prod(len(kept[w]) for w in nodes[nodes.index(u) + 1 :]) if u in nodes else 0
                    places = [x + step * k for x in places for k in range(len(kept[u]))]
                total = [x + worths[place] for x, place in zip(total, places)]
            tables.append((scope[:-1], [max(x) for x in zip(*[iter(total)] * len(kept[v]))]))
        return sum(inf if nodes else worths[0] for nodes, worths in tables)  # inf: a node is left

    def leaf(self, leaf: Any, allowed: list[set[int]], floor: float, units: Any) -> Any:
        """Return what all maxima add up to if messages are sent, and the labels left; None if that is not above the floor."""
        given, node = [[[0] * self.sizes[v] for v in x[0]] for x in self.parts], [[*row] for row in self.unary]
        for p, k, row in leaf["messages"]:
            old = given[array(p, (), 0, LARGE)][array(k, (), 0, LARGE)]
            more, v = nested(row, (len(old),), units), self.parts[p][0][k]
            given[p][k] = [x + y for x, y in zip(old, more)]
            node[v] = [None if u is None else u + y for u, y in zip(node[v], more)]
        kept = [{b for b in row if node[v][b] is not None} for v, row in enumerate(allowed)]
        while True:
            tops: list[Any] = [max((node[v][b] for b in row), default=None) for v, row in enumerate(kept)]
            tops += [None if None in tops else self.part(p, kept, given[p]) for p in range(len(given))]
            if None in tops or sum(tops) <= floor:
                return None
            total, last = sum(tops), kept
            kept = [{b for b in row if node[v][b] + total - tops[v] > floor} for v, row in enumerate(last)]
            if kept == last:
                return None if self.eliminated(leaf.get("order", []), kept) <= floor else (int(total), kept)


def check(text: Any) -> str:
    """Return what a file proves, in words; whatever is raised, nothing is proved."""
    need(text["format"] == FORMAT and text["version"] == VERSION, f"this is no {FORMAT} of version {VERSION}")
    stated, bits = text["problem"], bits_of([text["problem"], text["bound"], text["tree"]])
    units, kind, leaves = partial(in_units, bits=bits, factor=1), Graph if "parts" in stated else Sequence, 0
    problem, zero = kind(stated, units), kind(stated, partial(in_units, bits=0, factor=0))
    bound = units(text["bound"])
    stack = [(text["tree"], [{*range(size)} for size in problem.sizes], list[Any]())]
    while stack:
        tree, allowed, sent = stack.pop()
        if "at" in tree:  # a branch: the label at one place is one of some, or none of them
            at, some = array(tree["at"], (), 0, len(allowed) - 1), {*array(tree["labels"], (None,), 0, LARGE)}
            stack.append((tree["in"], [row & some if t == at else row for t, row in enumerate(allowed)], sent))
            stack.append((tree["out"], [row - some if t == at else row for t, row in enumerate(allowed)], sent))
            continue
        need("zero" in tree or bound is not None, "a leaf of a proof that nothing is possible must have scores of 0")
        leaf, leaves = tree | {"messages": sent + tree.get("messages", [])}, leaves + 1
        left = zero.leaf(leaf, allowed, -1, units) if "zero" in tree else problem.leaf(leaf, allowed, bound, units)
        if left is not None:  # what is left goes on: its labels, and the messages sent so far
            need("then" in tree, "a leaf leaves labelings open")
            stack.append((tree["then"], left[1], leaf["messages"]))
    proved = "no labeling is possible" if bound is None else f"no labeling is worth more than {text['bound']!r}"
    if bound is not None and text["witness"] is not None:
        witness = [{b} for b in array(text["witness"], (len(problem.sizes),), 0, LARGE)]
        worth = problem.leaf(problem.whole, witness, -inf, units)
        need(worth is not None, "the witness is forbidden")
        proved += f"; the witness is worth {(worth or [0])[0] / 2**bits!r}"
    digest = hashlib.sha256(json.dumps(stated).encode()).hexdigest()
    trusted = [f"to trust: the file states your problem, sha256 {digest}", *map("rule: {}".format, stated["words"])]
    return "\n  ".join([f"proved by {leaves} leaves: {proved}", *trusted])


def main(paths: list[str]) -> int:
    """Check files; return how many are refused."""
    refused = 0
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                print(f"{path}: {check(json.load(file))}")
        except Exception as error:
            refused += 1
            print(f"{path}: refused: {error!r}")
    return refused


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 100))
