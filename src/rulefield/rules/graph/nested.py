"""Nested logic over nodes: clauses where a statement is one, rows with auxiliary variables where it is not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rulefield.problem.logic import Logic
from rulefield.rules import logic, numbers
from rulefield.rules.chain.rows import Affine, total
from rulefield.rules.expression import Expression
from rulefield.rules.graph.factors import Atom, FactorBuilder, GraphRowBuilder, atoms_sum
from rulefield.rules.nodes import HowMany, Is
from rulefield.rules.rule import HARD

Literal = tuple[int, frozenset[int], int]
"""Node, labels that make the statement true, number of labels of the node."""
Clause = list[Literal]

MOST_CLAUSES = 64


@dataclass
class GroundCompiler:
    """Compiles the ground statements of one rule: the amount of each costs ``weight`` per unit (``inf``: it must hold).

    ``literal`` gives the literal of a statement about one node. If not ``countable``, a hard statement may become several
    factors, of which more than its amount may be broken.
    """

    literal: Callable[[Is], Literal]
    factors: FactorBuilder
    rows: GraphRowBuilder
    weight: float
    rule: int
    countable: bool = False

    def add(self, statement: Expression) -> None:
        """Compile one statement."""
        if isinstance(statement, numbers.Comparison):
            self._add_comparison(statement)
            return
        in_pieces = self.weight == HARD and not self.countable
        if in_pieces and _name(statement) == "all_of":
            for part in statement.children:
                self.add(part)
            return
        if self._add_gate(statement) or self._add_counts(statement):
            return
        clauses = self._clauses(statement, True)
        if clauses is not None and (in_pieces or len(clauses) <= 1 or _exclusive(statement)):
            for clause in clauses:
                self.factors.add_one(Logic.any_of, _clause_atoms(clause), self.weight, self.rule)
            return
        self.rows.limit(1.0 - self._force(statement, True), self.weight, self.rule)

    # --- factors: c = a or b, c = a and b, counts -------------------------------------------------

    def _add_gate(self, statement: Expression) -> bool:
        """Add iff(c, any_of(a, b)) and iff(c, all_of(a, b)) as one factor; say whether that was possible."""
        if _name(statement) != "iff":
            return False
        for output, inputs in (statement.children, statement.children[::-1]):
            if _name(inputs) not in ("any_of", "all_of") or not inputs.children:
                continue
            atoms = [self._single_atom(part) for part in (*inputs.children, output)]
            if all(atom is not None for atom in atoms):
                kind = Logic.or_out if _name(inputs) == "any_of" else Logic.and_out
                self.factors.add_one(kind, [atom for atom in atoms if atom is not None], self.weight, self.rule)
                return True
        return False

    def _add_counts(self, statement: Expression) -> bool:
        """Add at_most, at_least or exactly over simple statements as factors; say whether that was possible."""
        if not isinstance(statement, logic.Combination) or statement.name not in logic.NUMBERED:
            return False
        if not all(isinstance(part, Is) for part in statement.parts):
            return False
        literals = [self.literal(part) for part in statement.parts if isinstance(part, Is)]
        n, (low, high) = len(literals), statement.bounds(len(literals))
        if low == high == 1:
            self.factors.add_one(Logic.xor, _atoms(literals), self.weight, self.rule)
            return True
        if high < n:
            self.factors.add_one(Logic.budget, _atoms(literals), self.weight, self.rule, high)
        if low > 0:
            opposites = _atoms([_opposite(found) for found in literals])
            self.factors.add_one(Logic.budget, opposites, self.weight, self.rule, n - low)
        return True

    def _single_atom(self, statement: Expression) -> tuple[Atom, bool] | None:
        if _name(statement) == "not_":
            inner = self._single_atom(statement.children[0])
            return None if inner is None else (inner[0], not inner[1])
        if not isinstance(statement, Is):
            return None
        node, chosen, n_labels = self.literal(statement)
        if len(chosen) == 1:
            return (node, next(iter(chosen))), False
        if len(chosen) == n_labels - 1:
            return (node, next(iter(set(range(n_labels)) - chosen))), True
        return None

    # --- clauses ------------------------------------------------------------------------------------

    def _clauses(self, statement: Expression, truth: bool) -> list[Clause] | None:
        """Conjunctive form of the statement (of its opposite): a list of clauses; None if it would grow too large."""
        if isinstance(statement, Is):
            found = self.literal(statement)
            return [[found if truth else _opposite(found)]]
        if _name(statement) == "not_":
            return self._clauses(statement.children[0], not truth)
        if _name(statement) == "implies":
            a, b = statement.children
            both = [self._clauses(a, not truth), self._clauses(b, truth)]
            return _disjunction(both) if truth else _conjunction(both)
        if _name(statement) == "iff":
            a, b = statement.children
            ways = [[self._clauses(a, x), self._clauses(b, x != truth)] for x in (True, False)]
            return _conjunction([_disjunction(way) for way in ways])
        if not isinstance(statement, logic.Combination):
            return None
        n, (low, high) = len(statement.parts), statement.bounds(len(statement.parts))
        if low == high == 0:  # none of them
            parts = [self._clauses(part, not truth) for part in statement.parts]
            return _conjunction(parts) if truth else _disjunction(parts)
        if high < n or low not in (1, n):
            return None
        parts = [self._clauses(part, truth) for part in statement.parts]
        return _conjunction(parts) if (low == n) == truth else _disjunction(parts)

    # --- rows ---------------------------------------------------------------------------------------

    def _add_comparison(self, statement: numbers.Comparison) -> None:
        """Add excess rows: ``weight`` a unit."""
        value = self._value(statement.difference)
        if statement.sign in ("<=", "=="):
            self.rows.limit(value, self.weight, self.rule)
        if statement.sign in (">=", "=="):
            self.rows.limit(-value, self.weight, self.rule)

    def _value(self, number: numbers.Number) -> Affine:
        parts = [Affine(constant=float(number.constant))]
        for factor, term in number.terms:
            assert isinstance(term, HowMany)
            parts += [float(factor) * self._force(member, True) for member in term.part.children]
        return total(parts).merged()

    def _force(self, statement: Expression, truth: bool) -> Affine:
        """Return a 0/1 sum that can be 1 exactly where the statement has this truth (and may always be 0)."""
        if isinstance(statement, Is):
            node, chosen, _ = self.literal(statement) if truth else _opposite(self.literal(statement))
            return atoms_sum([(node, label) for label in chosen])
        if isinstance(statement, numbers.Comparison):
            return self._force_comparison(statement, truth)
        assert isinstance(statement, logic.Combination)
        return logic.forced(statement, statement.parts, truth, self._force, self._at_least)

    def _at_least(self, number: int, wanted: Sequence[Affine]) -> Affine:
        """Return a 0/1 variable that can be 1 exactly where ``number`` of the wanted can."""
        if number <= 0 or number > len(wanted):
            return Affine(constant=float(number <= 0))
        if len(wanted) == 1:
            return wanted[0]
        chosen = self.rows.auxiliary()
        for row in [chosen - one for one in wanted] if number == len(wanted) else [number * chosen - total(wanted)]:
            self.rows.define(chosen, row, self.rule)
        return chosen

    def _force_comparison(self, statement: numbers.Comparison, truth: bool) -> Affine:
        """Add value <= 0 if the variable is 1; the reach of the value serves as the usual big constant."""
        value = self._value(statement.difference)
        if statement.sign == "==":
            sides = [self._nonpositive(one, truth) for one in (value, -value)]
            return self._at_least(2 if truth else 1, sides)
        return self._nonpositive(value if statement.sign == "<=" else -value, truth)

    def _nonpositive(self, value: Affine, truth: bool) -> Affine:
        """Return a variable that can be 1 exactly where the number is <= 0 (without ``truth``: where it is >= 1)."""
        if not truth:
            value = 1.0 - value
        reach = value.constant + float(value.values[value.values > 0.0].sum())
        if reach <= 0:
            return Affine(constant=1.0)
        chosen = self.rows.auxiliary()
        self.rows.define(chosen, value + reach * chosen - reach, self.rule)
        return chosen


def _name(statement: Expression) -> str:
    """Return the name of a combination; empty for any other statement."""
    return statement.name if isinstance(statement, logic.Combination) else ""


def _exclusive(statement: Expression) -> bool:
    """Tell an ``iff`` of two simple statements: it has two clauses of which never both fail."""
    return _name(statement) == "iff" and all(isinstance(part, Is) for part in statement.children)


def _opposite(literal: Literal) -> Literal:
    node, chosen, n_labels = literal
    return node, frozenset(range(n_labels)) - chosen, n_labels


def _atoms(literals: Clause) -> list[tuple[Atom, bool]]:
    """Atoms whose number of true ones is that of the literals; one negated atom stands for all labels but one."""
    atoms: list[tuple[Atom, bool]] = []
    for node, chosen, n_labels in literals:
        if len(chosen) == n_labels - 1 and n_labels > 2:
            atoms.append(((node, next(iter(set(range(n_labels)) - chosen))), True))
        else:
            atoms += [((node, label), False) for label in sorted(chosen)]
    return atoms


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
