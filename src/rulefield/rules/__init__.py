"""What a rule is: the language, its meaning, and its compilation for one input.

Users write ``from rulefield import rules as r`` and find here everything that rules are written with.
"""

from rulefield.rules.compile import RuleCompiler, compile_rules
from rulefield.rules.facts import absent, at, before, eventually, first, followed_by, last, present
from rulefield.rules.logic import all_of, any_of, at_least, at_most, exactly, iff, implies, not_
from rulefield.rules.numbers import count, segments
from rulefield.rules.rule import Rule
from rulefield.rules.tokens import feature, token_equals, token_in, token_matches

__all__ = [
    "Rule",
    "RuleCompiler",
    "absent",
    "all_of",
    "any_of",
    "at",
    "at_least",
    "at_most",
    "before",
    "compile_rules",
    "count",
    "eventually",
    "exactly",
    "feature",
    "first",
    "followed_by",
    "iff",
    "implies",
    "last",
    "not_",
    "present",
    "segments",
    "token_equals",
    "token_in",
    "token_matches",
]
