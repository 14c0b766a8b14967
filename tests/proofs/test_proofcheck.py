"""The checker against proofs that are written by hand, and the rules of the house that it keeps."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rulefield import proofcheck

TALLY = {"node": [[0, 1]]}  # how often label 1 occurs


def chain_file(bound, tree, rules=(), witness=(1, 1)):
    """Two tokens, labels 0 and 1; label 1 is worth 1 each."""
    chain = {"unary": [[0.0, 1.0], [0.0, 1.0]], "pairwise": [[[0.0, 0.0], [0.0, 0.0]]]}
    problem = {"words": ["label 1 at most once"], "chain": chain, "rules": list(rules)}
    head = {"format": "rulefield-proof", "version": 1}
    return head | {
        "problem": problem,
        "witness": None if witness is None else list(witness),
        "bound": bound,
        "tree": tree,
    }


def once(weight, **more):
    return {"weight": weight, "classes": [0, 0], "counters": [TALLY | {"bound": 1}]} | more


def accepted(text):
    return proofcheck.check(json.loads(json.dumps(text)))


def refused(text):
    with pytest.raises(Exception) as error:
        accepted(text)
    return str(error.value)


def test_scores_alone():
    assert "no labeling is worth more than 2.0; the witness is worth 2.0" in accepted(chain_file(2.0, {"steps": []}))
    assert "open" in refused(chain_file(1.9999999999, {"steps": []}))


def test_a_multiplier_proves_what_a_rule_costs():
    soft, steps = once(0.75), {"steps": [{"multipliers": [[0, 0, 0.75]]}]}
    accepted(chain_file(1.25, steps, [soft]))  # 1 + 1 - 0.75
    assert "open" in refused(chain_file(1.25, {"steps": []}, [soft]))
    assert "not allowed" in refused(chain_file(1.25, {"steps": [{"multipliers": [[0, 0, 0.76]]}]}, [soft]))
    assert "not allowed" in refused(chain_file(1.25, {"steps": [{"multipliers": [[0, 0, -0.1]]}]}, [soft]))


def test_multipliers_of_hard_rules_have_no_limit():
    steps = {"steps": [{"multipliers": [[0, 0, 1.0]]}]}
    accepted(chain_file(1.0, steps, [once(None)], witness=(0, 1)))
    assert "forbidden" in refused(chain_file(1.0, steps, [once(None)], witness=(1, 1)))


def test_a_rule_multiplied_in_is_paid_exactly():
    steps = {"steps": [{"exact": [0, 0]}]}
    accepted(chain_file(1.0, steps, [once(None)], witness=None))
    accepted(chain_file(1.5, steps, [once(0.5, once=True)]))
    assert "open" in refused(chain_file(1.49, steps, [once(0.5, once=True)]))
    assert "does not wait" in refused(chain_file(1.4, {"steps": 2 * steps["steps"]}, [once(0.5)]))


def test_an_automaton_is_read():
    arcs = [[[[0, 0]], [[1, 0]]], [[[1, 0]], [[1, 1]]]]  # the second 1 costs 1
    automaton = {"letter": [[0, 1]], "initial": [0, -1], "final": [0, 0], "arcs": arcs}
    rule = {"weight": 0.25, "classes": [0, 0], "automaton": automaton}
    accepted(chain_file(1.75, {"steps": [{"exact": [0]}]}, [rule]))
    assert "open" in refused(chain_file(1.74, {"steps": [{"exact": [0]}]}, [rule]))


def test_branches_cover_everything():
    tree = {"at": 0, "labels": [1], "in": {"steps": [{"exact": [0, 0]}]}, "out": {"steps": []}}
    accepted(chain_file(1.0, tree, [once(None)], witness=None))
    tree["in"] = {"steps": []}
    assert "open" in refused(chain_file(1.0, tree, [once(None)], witness=None))


def test_infeasible_by_multipliers_and_by_product():
    never = {
        "weight": None,
        "classes": [0, 0],
        "counters": [{"node": [[-1, -1]], "bound": -3}],
    }  # three tokens of two
    for step in ({"multipliers": [[0, 0, 5.0]]}, {"exact": [0, 0]}):
        text = chain_file(None, {"zero": True, "steps": [step]}, [never], witness=None)
        assert "no labeling is possible" in accepted(text)
        assert "open" in refused(chain_file(None, {"zero": True, "steps": [step]}, [once(None)], witness=None))
        del text["tree"]["zero"]
        assert "scores of 0" in refused(text)


def test_soft_rules_prove_nothing_impossible():
    step = {"multipliers": [[0, 0, 0.5]]}
    assert "not allowed" in refused(chain_file(None, {"zero": True, "steps": [step]}, [once(9.0)], witness=None))


def test_arithmetic_is_exact():
    chain = chain_file(0.3, {"steps": []})
    chain["problem"]["chain"]["unary"] = [[0.1, 0.0], [0.2, 0.0]]
    accepted(chain | {"witness": None, "bound": 0.1 + 0.2})  # 0.30000000000000004, above the sum of the two doubles
    assert "open" in refused(chain | {"bound": 0.3})  # below it


def test_a_lattice():
    form = {
        "n_labels": 2,
        "labels": [[0, 1, 1], [0]],
        "arcs": [[[0, 0, 1.0], [0, 1, 5.0], [0, 2, 2.0]], [[0, 0, 1.0], [2, 0, 1.0]]],
    }
    text = chain_file(3.0, {"steps": []}, witness=(1, 0))
    text["problem"] = {"words": [], "lattice": form, "rules": []}
    assert "worth 3.0" in accepted(text)  # the node worth 5 leads nowhere
    assert "open" in refused(text | {"bound": 2.5})


def graph_file(bound, tree, witness=(0, 1, 0)):
    """Three nodes in a circle, unequal labels are worth 1: two edges of three can have it."""
    edges = [{"nodes": [i, j], "scores": [[0.0, 1.0], [1.0, 0.0]]} for i, j in ((0, 1), (1, 2), (0, 2))]
    problem = {"words": [], "unary": [[0.0, 0.0]] * 3, "parts": edges}
    head = {"format": "rulefield-proof", "version": 1}
    return head | {"problem": problem, "witness": list(witness), "bound": bound, "tree": tree}


def test_a_graph_by_branches_and_messages():
    none = {"messages": []}
    accepted(graph_file(3.0, none))
    assert "open" in refused(graph_file(2.0, none))
    leaves = {}  # two labels are fixed: the edges to the third node give it their scores
    for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        leaves[a, b] = {"messages": [[2, 1, [float(a == 1), float(a == 0)]], [1, 1, [float(b == 1), float(b == 0)]]]}
    inner = [{"at": 1, "labels": [0], "in": leaves[a, 0], "out": leaves[a, 1]} for a in (0, 1)]
    branch = {"at": 0, "labels": [0], "in": inner[0], "out": inner[1]}
    accepted(graph_file(2.0, branch))
    assert "open" in refused(graph_file(2.0, branch | {"out": none}))
    assert "open" in refused(graph_file(1.999, branch))


def test_a_graph_by_elimination():
    accepted(graph_file(2.0, {"messages": [], "order": [0, 1, 2]}))
    assert "open" in refused(graph_file(1.999, {"messages": [], "order": [0, 1, 2]}))
    assert "open" in refused(graph_file(2.0, {"messages": [], "order": [0, 1]}))  # a node is left
    text = graph_file(1.0, {"messages": [], "order": [2, 0, 1]}, witness=(0, 1, 0))
    for part in text["problem"]["parts"][:2]:
        part["scores"] = [[0.0, 1.0], [None, 0.0]]  # 0 before 1: of two edges in a row one is worth 1
    text["problem"]["parts"].pop()
    accepted(text | {"witness": [0, 1, 1]})
    assert "open" in refused(text | {"witness": [0, 1, 1], "bound": 0.5})
    assert "forbidden" in refused(text)


def test_a_rule_of_a_graph():
    text = graph_file(1.0, {"messages": [[3, 0, [0.0, 0.0]]]})
    text["problem"]["parts"] = [
        {"nodes": [0, 1, 2], "weight": None, "classes": [0, 0, 0], "counters": [{"node": [[0, 1]], "bound": 0}]}
    ]
    text["problem"]["unary"] = [[0.0, 1.0]] * 3
    messages = [[0, k, [0.0, -1.0]] for k in range(3)]
    accepted(text | {"bound": 0.0, "witness": [0, 0, 0], "tree": {"messages": messages}})
    assert "open" in refused(text | {"bound": 0.0, "witness": [0, 0, 0], "tree": {"messages": []}})


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"bound": float("inf")},
        {"witness": [1]},
        {"witness": [1, -1]},
        {"bound": 1.0, "tree": {"steps": [{"exact": [-1]}]}},
        {"tree": {"at": -1, "labels": [1], "in": {"steps": []}, "out": {"steps": []}}},
    ],
)
def test_what_has_not_the_form_is_refused(change):
    with pytest.raises(Exception):  # noqa: B017
        proofcheck.check(chain_file(2.0, {"steps": []}) | change)


def test_it_stands_alone_and_is_short(tmp_path):
    source = Path(proofcheck.__file__).read_text()
    imported = {
        alias.name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    imported |= {
        str(node.module).split(".")[0] for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)
    }
    assert imported <= set(sys.stdlib_module_names)
    assert len(source.splitlines()) <= 400
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(chain_file(2.0, {"steps": []})))
    bad.write_text("{")
    alone = tmp_path / "alone.py"
    alone.write_text(source)
    done = subprocess.run([sys.executable, "-I", alone, good, bad], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "worth more than 2.0" in done.stdout
    assert "rule: label 1 at most once" in done.stdout
    assert "refused" in done.stdout
