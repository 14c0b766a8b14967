"""Every compiled form says the amount that the definition says, for every labelling of small inputs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.rules import (
    automaton_amounts,
    counters_amount,
    rows_amount,
    rule_cases,
    tally_amount,
)
from rulefield.rules import compile_rules


def check_forms(case):
    """Tally, counters and automaton agree with the definition; return the amounts by labelling."""
    (rule,) = case.rules
    (compiled,) = compile_rules(case.rules, case.labels, case.scheme, case.tokens)
    classes = compiled.token_class
    assert compiled.tally is not None or compiled.counters or compiled.automaton is not None
    amounts = []
    for y in case.labellings():
        amount = rule.violation(case.tokens, case.names(y), case.scheme)
        if compiled.tally is not None:
            assert tally_amount(compiled.tally, classes, y) == amount
        if compiled.counters:
            assert counters_amount(compiled.counters, classes, y) == amount
        if compiled.automaton is not None:
            assert automaton_amounts(compiled.automaton, classes, y) == [amount]
        assert amount <= compiled.max_amount
        amounts.append((y, amount))
    return compiled, amounts


@settings(max_examples=300, deadline=None)
@given(rule_cases(max_tokens=4, depth=0))
def test_facts_and_comparisons_compile_to_their_definition(case):
    check_forms(case)


@settings(max_examples=300, deadline=None)
@given(rule_cases(max_tokens=3, depth=2))
def test_nested_logic_compiles_to_its_definition(case):
    check_forms(case)


@settings(max_examples=120, deadline=None)
@given(rule_cases(max_tokens=3, depth=1), st.randoms(use_true_random=False))
def test_least_slack_of_rows_is_the_amount(case, random):
    compiled, amounts = check_forms(case)
    rows = compiled.make_rows()
    n, m = len(case.tokens), len(case.labels)
    for y, amount in random.sample(amounts, min(4, len(amounts))):
        assert rows_amount(rows, n, m, y) == amount
