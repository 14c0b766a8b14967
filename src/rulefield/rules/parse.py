"""Reading rules from text: a small part of Python's syntax, never evaluated as Python."""

import ast
import operator as op
from collections.abc import Callable
from typing import Any, NoReturn

from rulefield.exceptions import RuleError, RulefieldError
from rulefield.rules import expectations, facts, logic, numbers, tokens
from rulefield.rules.labels import hint
from rulefield.rules.rule import Rule

FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(numbers.count, numbers.segments),
        *(facts.present, facts.absent, facts.first, facts.last, facts.before, facts.eventually),
        *(facts.followed_by, facts.at, facts.each_at_most_once),
        *(logic.all_of, logic.any_of, logic.implies, logic.iff, logic.not_),
        *(logic.exactly, logic.at_most, logic.at_least),
        *(tokens.token_equals, tokens.token_in, tokens.token_matches, tokens.feature),
        *(tokens.token_all, tokens.token_not, tokens.previous_token, tokens.next_token),
        *(tokens.first_token, tokens.last_token, tokens.any_token),
        *(expectations.share, expectations.expected),
    )
}
"""What may be called in a rule; other files of this package may add to it."""

METHODS = {"soft", "named", "hard", "between", "at_most", "at_least"}
"""Methods that may be called: of rules, and of expectations."""

_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {ast.Add: op.add, ast.Sub: op.sub, ast.Mult: op.mul}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    **{ast.LtE: op.le, ast.GtE: op.ge, ast.Eq: op.eq},
    **{ast.Lt: op.lt, ast.Gt: op.gt, ast.NotEq: op.ne},
}


def parse_rule(text: str) -> Rule:
    """Read one rule as it is written in Python, with or without ``r.`` before the names.

    Only the names of the language, strings, numbers, lists, ``+ - *`` and comparisons are understood.
    """
    rule = parse_expression(text)
    if not isinstance(rule, Rule):
        raise RuleError(f"{text.strip()!r} is not a rule; compare counts, as in segments('title') <= 1.")
    return rule


def parse_expression(text: str, what: str = "rule") -> Any:
    """Read any expression of the language: a rule, a number, a condition, a share; ``what`` is named in errors."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        place, problem = getattr(error, "offset", None) or 0, getattr(error, "msg", str(error))
        if "=" in text.strip()[max(place - 2, 0) : place + 1] and "==" not in text:
            problem += "; equal to is written =="
        raise RuleError(f"the {what} {text.strip()!r} cannot be read: {problem}.") from error
    try:
        return _read(tree.body)
    except RecursionError as error:
        raise RuleError(f"the {what} is nested too deeply to be read; split it into several.") from error


def _read(node: ast.expr) -> Any:
    for kind, reader in _READERS.items():
        if isinstance(node, kind):
            return reader(node)
    return _refuse(node)


def _refuse(node: ast.expr) -> NoReturn:
    raise RuleError(
        f"{ast.unparse(node)!r} has no meaning in a rule; rules are made of calls such as present('title')."
    )


def _constant(node: ast.Constant) -> Any:
    if node.value is None or isinstance(node.value, str | int | float):
        return node.value
    return _refuse(node)


def _sequence(node: ast.List | ast.Tuple) -> list[Any]:
    return [_read(item) for item in node.elts]


def _mapping(node: ast.Dict) -> dict[Any, Any]:
    """Read ``{"task": "label"}``, as in ``share(..., after={...})``."""
    if not all(isinstance(key, ast.Constant) for key in node.keys):
        _refuse(node)
    return {_read(key): _read(value) for key, value in zip(node.keys, node.values) if key is not None}


def _unary(node: ast.UnaryOp) -> Any:
    if isinstance(node.op, ast.USub):
        return -_operand(node.operand)
    if isinstance(node.op, ast.Not):
        raise RuleError("for 'not a' write not_(a).")
    return _refuse(node)


def _binary(node: ast.BinOp) -> Any:
    apply = _ARITHMETIC.get(type(node.op))
    if apply is None:
        raise RuleError(
            f"{ast.unparse(node)!r} has no meaning in a rule; counts are added, subtracted and multiplied, and rules "
            f"joined with all_of, any_of, implies."
        )
    return apply(_operand(node.left), _operand(node.right))


def _operand(node: ast.expr) -> Any:
    """Read something that may be reckoned with: a count or a number, no text (which ``*`` would repeat)."""
    value = _read(node)
    return value if isinstance(value, numbers.Number | int | float) else _refuse(node)


def _boolean(node: ast.BoolOp) -> NoReturn:
    word, name = ("and", "all_of") if isinstance(node.op, ast.And) else ("or", "any_of")
    raise RuleError(f"for 'a {word} b' write {name}(a, b).")


def _compare(node: ast.Compare) -> Any:
    if len(node.ops) > 1:
        raise RuleError("a chained comparison such as 1 <= n <= 3 must be written all_of(n >= 1, n <= 3).")
    apply = _COMPARISONS.get(type(node.ops[0]))
    left, right = _read(node.left), _read(node.comparators[0])
    if apply is None or not (isinstance(left, numbers.Number) or isinstance(right, numbers.Number)):
        return _refuse(node)
    return apply(left, right)


def _call(node: ast.Call) -> Any:
    arguments = [_read(argument) for argument in node.args]
    keywords = {keyword.arg: _read(keyword.value) for keyword in node.keywords if keyword.arg}
    if len(keywords) < len(node.keywords):
        _refuse(node)
    function = _function(node.func)
    try:
        return function(*arguments, **keywords)
    except RulefieldError:
        raise
    except (TypeError, ValueError) as error:
        raise RuleError(f"{ast.unparse(node)!r} cannot be read: {error}.") from error


def _function(node: ast.expr) -> Callable[..., Any]:
    if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id in ("r", "rules")):
        if node.attr not in METHODS:
            raise RuleError(_unknown(node.attr, METHODS))
        owner = _read(node.value)
        if not hasattr(owner, node.attr):
            kind = "a rule" if node.attr in ("soft", "hard", "named") else "a share or an expected number"
            raise RuleError(f"{ast.unparse(node.value)!r} is not {kind}, so it has no .{node.attr}(...).")
        return getattr(owner, node.attr)
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if name not in FUNCTIONS:
        raise RuleError(_unknown(name or ast.unparse(node), FUNCTIONS))
    return FUNCTIONS[name]


def _name(node: ast.Name) -> NoReturn:
    raise RuleError(f"{node.id!r} stands alone in a rule; labels are written in quotes: '{node.id}'.")


def _unknown(name: str, known: Any) -> str:
    near = hint(name, known, f"known are {', '.join(sorted(known))}.")
    return f"{name!r} is not a word of the rules language; {near}"


_READERS: dict[Any, Callable[[Any], Any]] = {
    ast.Constant: _constant,
    (ast.List, ast.Tuple): _sequence,
    ast.Dict: _mapping,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.Call: _call,
    ast.Name: _name,
}
