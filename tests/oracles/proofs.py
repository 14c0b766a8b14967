"""What a proof file states, read naively: the worth of every labeling, in fractions."""

from fractions import Fraction
from itertools import product


def stated_worths(problem):
    """Worth of every allowed labeling of the problem in a file, from the definition of the format."""
    return {
        labels: worth for labels in all_labelings(problem) if (worth := stated_worth(problem, labels)) is not None
    }


def all_labelings(problem):
    if "chain" in problem:
        unary = problem["chain"]["unary"]
        return product(range(len(unary[0])), repeat=len(unary))
    if "lattice" in problem:
        form = problem["lattice"]
        return product(range(form["n_labels"]), repeat=len(form["labels"]))
    return product(*(range(len(row)) for row in problem["unary"]))


def stated_worth(problem, labels):
    """Worth of one labeling; None where it is forbidden."""
    if "parts" in problem:
        return graph_worth(problem, labels)
    score = chain_score(problem["chain"], labels) if "chain" in problem else lattice_score(problem["lattice"], labels)
    costs = [rule_cost(rule, labels) for rule in problem["rules"]]
    return None if score is None or None in costs else score - sum(costs)


def chain_score(chain, labels):
    steps = chain["pairwise"]
    terms = [row[b] for row, b in zip(chain["unary"], labels)]
    terms += [steps[min(t, len(steps)) - 1][labels[t - 1]][labels[t]] for t in range(1, len(labels))]
    return None if None in terms else sum(map(Fraction, terms), Fraction(0))


def lattice_score(form, labels):
    """Best score of a path that spells the labels."""
    reach = {0: Fraction(0)}
    for names, arcs, label in zip(form["labels"], form["arcs"], labels):
        after = {}
        for i, j, score in arcs:
            if i in reach and names[j] == label:
                after[j] = max(after.get(j, reach[i] + Fraction(score)), reach[i] + Fraction(score))
        reach = after
    return max(reach.values(), default=None)


def graph_worth(problem, labels):
    terms = [row[b] for row, b in zip(problem["unary"], labels)]
    costs = []
    for part in problem["parts"]:
        own = [labels[v] for v in part["nodes"]]
        if "scores" in part:
            terms.append(part["scores"][own[0]][own[1]])
        else:
            costs.append(rule_cost(part, own))
    if None in terms or None in costs:
        return None
    return sum(map(Fraction, terms), Fraction(0)) - sum(costs)


def rule_cost(rule, labels):
    amount = rule_amount(rule, labels)
    if amount is None or rule["weight"] is None:
        return None if amount is None or amount > 0 else 0
    paid = min(max(amount, 0), 1) if rule.get("once") else amount
    return Fraction(rule["weight"]) * paid


def rule_amount(rule, labels):
    if "tally" in rule:
        return tally(rule["tally"], rule["classes"], labels)
    if "counters" in rule:
        return sum(max(0, tally(c, rule["classes"], labels) - c["bound"]) for c in rule["counters"])
    return least_run(rule["automaton"], rule["classes"], labels)


def tally(tables, classes, labels):
    total = 0
    for t, (c, b) in enumerate(zip(classes, labels)):
        table = tables["node"] if t or not tables.get("first") else tables["first"]
        total += table[c][b] + (tables["edge"][c][labels[t - 1]][b] if t and tables.get("edge") else 0)
    return total


def least_run(automaton, classes, labels):
    runs = {q: x for q, x in enumerate(automaton["initial"]) if x >= 0}
    for c, b in zip(classes, labels):
        after = {}
        for q, paid in runs.items():
            for to, amount in automaton["arcs"][q][automaton["letter"][c][b]]:
                after[to] = min(after.get(to, paid + amount), paid + amount)
        runs = after
    ends = (paid + automaton["final"][q] for q, paid in runs.items() if automaton["final"][q] >= 0)
    return min(ends, default=None)
