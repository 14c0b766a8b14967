"""What a rule is: the language, its meaning, and its compilation for one input.

Users write ``from rulefield import rules as r`` and find here everything that rules are written with.
"""

from rulefield.rules.chain import RuleCompiler, compile_rules
from rulefield.rules.expectations import expected, share
from rulefield.rules.facts import absent, at, before, each_at_most_once, eventually, first, followed_by, last, present
from rulefield.rules.finding.check import CheckedRule, check, importance, prune
from rulefield.rules.finding.discover import discover
from rulefield.rules.finding.estimate import expectations_from
from rulefield.rules.finding.mine import MinedRule, mine, mine_table
from rulefield.rules.finding.propose import propose
from rulefield.rules.logic import all_of, any_of, at_least, at_most, exactly, iff, implies, not_
from rulefield.rules.nodes import along, for_each, how_many, node, nodes, related, this
from rulefield.rules.numbers import count, segments
from rulefield.rules.parse import parse_rule
from rulefield.rules.rule import Rule
from rulefield.rules.text import dump, load
from rulefield.rules.tokens import (
    any_token,
    feature,
    first_token,
    last_token,
    next_token,
    previous_token,
    token_all,
    token_equals,
    token_in,
    token_matches,
    token_not,
)

__all__ = [
    "CheckedRule",
    "MinedRule",
    "Rule",
    "RuleCompiler",
    "absent",
    "all_of",
    "along",
    "any_of",
    "any_token",
    "at",
    "at_least",
    "at_most",
    "before",
    "check",
    "compile_rules",
    "count",
    "discover",
    "dump",
    "each_at_most_once",
    "eventually",
    "exactly",
    "expectations_from",
    "expected",
    "feature",
    "first",
    "first_token",
    "followed_by",
    "for_each",
    "how_many",
    "iff",
    "implies",
    "importance",
    "last",
    "last_token",
    "load",
    "mine",
    "mine_table",
    "next_token",
    "node",
    "nodes",
    "not_",
    "parse_rule",
    "present",
    "previous_token",
    "propose",
    "prune",
    "related",
    "segments",
    "share",
    "this",
    "token_all",
    "token_equals",
    "token_in",
    "token_matches",
    "token_not",
]
