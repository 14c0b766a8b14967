"""From rules to the forms that engines read: tallies, counters, automata and linear rows."""

from rulefield.rules.chain.compiler import RuleCompiler, compile_rules

__all__ = ["RuleCompiler", "compile_rules"]
