"""Nested logic over nodes: clauses where a statement is one, rows with auxiliary variables where it is not."""

from collections.abc import Callable

from rulefield.problem.logic import Logic
from rulefield.rules import logic, numbers
from rulefield.rules.expression import Expression
from rulefield.rules.graph.factors import Atom, FactorBuilder, GraphAffine, GraphRowBuilder
from rulefield.rules.nodes import HowMany, NodeIs
from rulefield.rules.rule import HARD

Literal = tuple[int, frozenset[int], int]
"""Node, labels that make the statement true, number of labels of the node."""
LiteralOf = Callable[[NodeIs], Literal]
Clause = list[Literal]

MOST_CLAUSES = 64


def compile_ground(
    statement: Expression,
    literal: LiteralOf,
    factors: FactorBuilder,
    rows: GraphRowBuilder,
    weight: float,
    rule: int,
    countable: bool = False,
) -> None:
    """Compile one ground statement: its amount costs ``weight`` per unit (``inf``: it must hold).

    A hard statement may become several factors, of which more than its amount may be broken, unless ``countable``.
    """
    if isinstance(statement, numbers.Comparison):
        _comparison_rows(statement, literal, rows, weight, rule)
        return
    in_pieces = weight == HARD and not countable
    if in_pieces and isinstance(statement, logic.AllOf):
        for part in statement.parts:
            compile_ground(part, literal, factors, rows, weight, rule)
        return
    if _gate(statement, literal, factors, weight, rule) or _counts(statement, literal, factors, weight, rule):
        return
    clauses = _clauses(statement, True, literal)
    if clauses is not None and (in_pieces or len(clauses) <= 1 or _exclusive(statement)):
        for clause in clauses:
            factors.add_one(Logic.any_of, _clause_atoms(clause), weight, rule)
        return
    forced = _force(statement, True, literal, rows, rule)
    rows.limit(GraphAffine(constant=1.0), forced, weight, rule)


def _exclusive(statement: Expression) -> bool:
    """Tell an ``iff`` of two simple statements: it has two clauses of which never both fail."""
    return isinstance(statement, logic.Iff) and all(isinstance(part, NodeIs) for part in statement.parts)


# --- outputs: c = a or b, c = a and b ---------------------------------------------------------


def _gate(statement: Expression, literal: LiteralOf, factors: FactorBuilder, weight: float, rule: int) -> bool:
    """Add iff(c, any_of(a, b)) and iff(c, all_of(a, b)) as one factor; say whether that was possible."""
    if not isinstance(statement, logic.Iff):
        return False
    gates = (logic.AnyOf, logic.AllOf)
    for output, inputs in (statement.parts, statement.parts[::-1]):
        if not isinstance(inputs, gates) or not inputs.parts:
            continue
        atoms = [_single_atom(part, literal) for part in (*inputs.parts, output)]
        if all(atom is not None for atom in atoms):
            kind = Logic.or_out if isinstance(inputs, logic.AnyOf) else Logic.and_out
            factors.add_one(kind, [atom for atom in atoms if atom is not None], weight, rule)
            return True
    return False


def _counts(statement: Expression, literal: LiteralOf, factors: FactorBuilder, weight: float, rule: int) -> bool:
    """Add at_most, at_least or exactly over simple statements as factors; say whether that was possible."""
    if not isinstance(statement, logic.Counted) or not all(isinstance(part, NodeIs) for part in statement.parts):
        return False
    literals = [literal(part) for part in statement.parts if isinstance(part, NodeIs)]
    low, high = _count_bounds(statement)
    if low == high == 1:
        factors.add_one(Logic.xor, _atoms(literals), weight, rule)
        return True
    if high < len(literals):
        factors.add_one(Logic.budget, _atoms(literals), weight, rule, high)
    if low > 0:
        opposites = [_opposite(found) for found in literals]
        factors.add_one(Logic.budget, _atoms(opposites), weight, rule, len(literals) - low)
    return True


def _atoms(literals: Clause) -> list[tuple[Atom, bool]]:
    """Atoms whose number of true ones is that of the literals; one negated atom stands for all labels but one."""
    atoms: list[tuple[Atom, bool]] = []
    for node, chosen, n_labels in literals:
        if len(chosen) == n_labels - 1 and n_labels > 2:
            atoms.append(((node, next(iter(set(range(n_labels)) - chosen))), True))
        else:
            atoms += [((node, label), False) for label in sorted(chosen)]
    return atoms


def _single_atom(statement: Expression, literal: LiteralOf) -> tuple[Atom, bool] | None:
    if isinstance(statement, logic.Not):
        inner = _single_atom(statement.parts[0], literal)
        return None if inner is None else (inner[0], not inner[1])
    if not isinstance(statement, NodeIs):
        return None
    node, chosen, n_labels = literal(statement)
    if len(chosen) == 1:
        return (node, next(iter(chosen))), False
    if len(chosen) == n_labels - 1:
        return (node, next(iter(set(range(n_labels)) - chosen))), True
    return None


# --- clauses ----------------------------------------------------------------------------------


def _opposite(literal: Literal) -> Literal:
    node, chosen, n_labels = literal
    return node, frozenset(range(n_labels)) - chosen, n_labels


def _clauses(statement: Expression, truth: bool, literal: LiteralOf) -> list[Clause] | None:
    """Conjunctive form of the statement (of its opposite): a list of clauses; None if it would grow too large."""
    if isinstance(statement, NodeIs):
        found = literal(statement)
        return [[found if truth else _opposite(found)]]
    if isinstance(statement, logic.Not):
        return _clauses(statement.parts[0], not truth, literal)
    if isinstance(statement, logic.Implies):
        a, b = statement.parts
        both = [_clauses(a, not truth, literal), _clauses(b, truth, literal)]
        return _disjunction(both) if truth else _conjunction(both)
    if isinstance(statement, logic.Iff):
        a, b = statement.parts
        ways = [[_clauses(a, x, literal), _clauses(b, x != truth, literal)] for x in (True, False)]
        return _conjunction([_disjunction(way) for way in ways])
    bounds = _simple_bounds(statement)
    if bounds is None:
        return None
    every = (bounds == "all") == truth
    parts = [_clauses(part, truth != (bounds == "none"), literal) for part in statement.children]
    if bounds == "none":
        every = truth
    return _conjunction(parts) if every else _disjunction(parts)


def _simple_bounds(statement: Expression) -> str | None:
    """Say whether a combination means all, some or none of its parts; None if it counts."""
    n = len(statement.children)
    if isinstance(statement, logic.AllOf) or (isinstance(statement, logic.AtLeast) and statement.number == n > 0):
        return "all"
    if isinstance(statement, logic.AnyOf) or (isinstance(statement, logic.AtLeast) and statement.number == 1):
        return "some"
    if isinstance(statement, logic.AtMost | logic.Exactly) and statement.number == 0:
        return "none"
    return None


def _conjunction(parts: list[list[Clause] | None]) -> list[Clause] | None:
    out: list[Clause] = []
    for part in parts:
        if part is None:
            return None
        out += part
    return out if len(out) <= MOST_CLAUSES else None


def _disjunction(parts: list[list[Clause] | None]) -> list[Clause] | None:
    out: list[Clause] = [[]]
    for part in parts:
        if part is None or len(out) * len(part) > MOST_CLAUSES:
            return None
        out = [left + right for left in out for right in part]
    return out


def _clause_atoms(clause: Clause) -> list[tuple[Atom, bool]]:
    """Atoms of which at least one must be true."""
    merged: dict[int, Literal] = {}
    for node, chosen, n_labels in clause:
        before = merged[node][1] if node in merged else frozenset()
        merged[node] = (node, before | chosen, n_labels)
    return _atoms(list(merged.values()))


# --- rows -------------------------------------------------------------------------------------


def _comparison_rows(
    statement: numbers.Comparison, literal: LiteralOf, rows: GraphRowBuilder, weight: float, rule: int
) -> None:
    """Add excess rows: ``weight`` a unit."""
    value = _affine(statement.difference, literal)
    zero = GraphAffine()
    if statement.sign in ("<=", "=="):
        rows.limit(value, zero, weight, rule)
    if statement.sign in (">=", "=="):
        rows.limit(zero, value, weight, rule)


def _affine(number: numbers.Number, literal: LiteralOf) -> GraphAffine:
    out = GraphAffine(constant=float(number.constant))
    for factor, term in number.terms:
        assert isinstance(term, HowMany)
        for member in term.part.children:
            assert isinstance(member, NodeIs)
            out = out.plus(_truth(literal(member)), float(factor))
    return out


def _truth(literal: Literal) -> GraphAffine:
    node, chosen, _ = literal
    return GraphAffine({(node, label): 1.0 for label in chosen})


def _force(statement: Expression, truth: bool, literal: LiteralOf, rows: GraphRowBuilder, rule: int) -> GraphAffine:
    """Return a 0/1 expression that can be 1 exactly where the statement has this truth (and may always be 0)."""
    if isinstance(statement, NodeIs):
        found = literal(statement)
        return _truth(found if truth else _opposite(found))
    if isinstance(statement, logic.Not):
        return _force(statement.parts[0], not truth, literal, rows, rule)
    if isinstance(statement, numbers.Comparison):
        return _force_comparison(statement, truth, literal, rows, rule)
    if isinstance(statement, logic.Implies):
        a, b = statement.parts
        wanted = [_force(a, not truth, literal, rows, rule), _force(b, truth, literal, rows, rule)]
        return _at_least(rows, 1 if truth else 2, wanted, rule)
    if isinstance(statement, logic.Iff):
        a, b = statement.parts
        ways = []
        for x in (True, False):
            pair = [_force(a, x, literal, rows, rule), _force(b, x == truth, literal, rows, rule)]
            ways.append(_at_least(rows, 2, pair, rule))
        return _at_least(rows, 1, ways, rule)
    return _force_count(statement, truth, literal, rows, rule)


def _force_count(
    statement: Expression, truth: bool, literal: LiteralOf, rows: GraphRowBuilder, rule: int
) -> GraphAffine:
    parts, n = statement.children, len(statement.children)
    low, high = _count_bounds(statement)
    wanted = []
    if low > 0:
        at_least = low if truth else n - low + 1
        wanted.append(_at_least(rows, at_least, [_force(p, truth, literal, rows, rule) for p in parts], rule))
    if high < n:
        at_least = n - high if truth else high + 1
        wanted.append(_at_least(rows, at_least, [_force(p, not truth, literal, rows, rule) for p in parts], rule))
    if not wanted:
        return GraphAffine(constant=1.0 if truth else 0.0)
    return _at_least(rows, len(wanted) if truth else 1, wanted, rule)


def _count_bounds(statement: Expression) -> tuple[int, int]:
    n = len(statement.children)
    if isinstance(statement, logic.AllOf):
        return n, n
    if isinstance(statement, logic.AnyOf):
        return 1, n
    assert isinstance(statement, logic.Counted)
    low = 0 if isinstance(statement, logic.AtMost) else statement.number
    high = n if isinstance(statement, logic.AtLeast) else statement.number
    return low, high


def _at_least(rows: GraphRowBuilder, number: int, wanted: list[GraphAffine], rule: int) -> GraphAffine:
    """Return a 0/1 variable that can be 1 exactly where ``number`` of the wanted can."""
    if number <= 0:
        return GraphAffine(constant=1.0)
    if number > len(wanted):
        return GraphAffine()
    if len(wanted) == 1:
        return wanted[0]
    chosen = rows.auxiliary()
    if number == len(wanted):
        for one in wanted:
            rows.define(chosen, chosen, one, rule)
    else:
        total = GraphAffine()
        for one in wanted:
            total = total.plus(one)
        rows.define(chosen, GraphAffine().plus(chosen, float(number)), total, rule)
    return chosen


def _force_comparison(
    statement: numbers.Comparison, truth: bool, literal: LiteralOf, rows: GraphRowBuilder, rule: int
) -> GraphAffine:
    """Add value <= 0 if the variable is 1; the reach of the value serves as the usual big constant."""
    value = _affine(statement.difference, literal)
    if statement.sign == "==":
        sides = [
            _nonpositive(value if up else GraphAffine().plus(value, -1.0), truth, rows, rule) for up in (True, False)
        ]
        return _at_least(rows, 2 if truth else 1, sides, rule)
    return _nonpositive(value if statement.sign == "<=" else GraphAffine().plus(value, -1.0), truth, rows, rule)


def _nonpositive(value: GraphAffine, truth: bool, rows: GraphRowBuilder, rule: int) -> GraphAffine:
    """Return a variable that can be 1 exactly where the number is <= 0 (without ``truth``: where it is >= 1)."""
    if not truth:
        value = GraphAffine(constant=1.0).plus(value, -1.0)
    reach = value.constant + sum(max(x, 0.0) for x in value.terms.values())
    if reach <= 0:
        return GraphAffine(constant=1.0)
    chosen = rows.auxiliary()
    rows.define(chosen, value.plus(chosen, reach), GraphAffine(constant=reach), rule)
    return chosen
