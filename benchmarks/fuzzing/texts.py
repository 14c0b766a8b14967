"""Altered texts: rules, expectations, files; refused with a sentence, or read and used."""

import tempfile
from functools import cache
from pathlib import Path

import rulefield as rf
from rulefield.cli.corpus import read_corpus, with_labels
from rulefield.exceptions import RulefieldError
from rulefield.rules import expectation_text, text

RULES = """- segments('name') <= 1
- name: a year at most
  rule: count('year') <= 2
  weight: 2.5
- rule: implies(present('name'), before('name', 'year'))
  weight: learn
- at(token_matches('^[0-9]{4}$'), here='year')
- any_of(first('name'), not_(last('O')), at_most(1, present('year'), followed_by('name', 'O')))
- rule: 2 * count('O', where=token_in(',', 'of')) - segments('*') >= -3
  per: once
  weight: 1
- iff(eventually('name', 'year'), exactly(2, present('O'), absent('name'), first('year')))
- at(token_all(previous_token(token_equals('the')), token_not(token_in(','))), here='name', next='O', then='here')
"""
EXPECTATIONS = """- share('B-name').between(.05, .2)
- name: few years
  expect: share('B-year')
  at_most: 0.3
- expect: expected(count('I-name') + segments('year'))
  between: [0, 2.5]
- share('O').at_least(0.5)
"""
COLUMNS = "the DT O\nAda NNP B-name\nLovelace NNP I-name\n\nin IN O\n1843 CD B-year\n\n-DOCSTART- X O\n\nof IN O\n"
JSON_LINES = """{"tokens": ["the", "Ada"], "labels": ["O", "B-name"]}
{"tokens": [["the", "DT"], ["Ada", "NN"]], "labels": ["O", null]}
{"features": [{"word": "the", "n": 3.5, "x": {"y": ["a", "b"]}}], "labels": [["O", "B-name"]]}
{"tokens": [], "labels": []}
"""
SNIPPETS = ["'", '"', "(", ")", "[", "]", "{", "}", "&a ", "*a", "- ", ": ", "\t", "\n", "\0", "\\", "%x[", "-1", "9" * 30,
            "1e999", "9" * 5000, "NaN", "null", "true", "!!python/object:os.system", "<<: ", "~", "|", ">", "(a+)+$",
            "(a|aa)+$", ".{1000}", "🙂", "\ud7ff", "\u2028", "count('a')", "present", "not_(", ".soft(1e309)", "'*'", "**/",
            "None", "* 10 ** 9", "lambda: 0", "__import__('os')", "f'{1}'", "for", "%x[99,0]", "%x[-999999999,0]",
            "B-", "/"]  # fmt: skip


def mutated(rng, text):
    """Return the text with a few random changes."""
    made = text
    for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
        at, kind = int(rng.integers(len(made) + 1)), int(rng.integers(6))
        end = min(len(made), at + int(rng.integers(1, 30)))
        snippet = SNIPPETS[int(rng.integers(len(SNIPPETS)))]
        if kind == 0:
            made = made[:at] + made[end:]
        elif kind == 1:
            made = made[:at] + made[at:end] * int(rng.integers(2, 40)) + made[end:]
        elif kind == 2:
            made = made[:at] + chr(int(rng.integers(1, 0x2100))) + made[at:]
        elif kind == 3:
            made = made[:at] + snippet * int(rng.choice([1, 1, 1, 50])) + made[at:]
        elif kind == 4:
            made = made[:at] + snippet + made[end:]
        else:
            lines = made.split("\n")
            rng.shuffle(lines)
            made = "\n".join(lines)
    return made


@cache
def model():
    X = [["the", "Ada", "of", "1912"], ["in", "1815"], ["Alan", "Turing"]]
    y = [["O", "B-name", "O", "B-year"], ["O", "B-year"], ["B-name", "I-name"]]
    return rf.ChainCRF(scheme="BIO", max_iter=10).fit(X, y), X, y


def altered_rules(rng):
    """Read altered rules; compile and decode under those that are rules."""
    given = mutated(rng, _some_lines(rng, RULES))
    crf, X, _ = model()
    try:
        rules = [rule for rule in text.loads(given) if rule.weight != "learn"][:4]
        text.loads(text.dumps(rules))
        crf.decode(X, rules=rules)
    except RulefieldError:
        return "refused", given
    return "used", given


def altered_expectations(rng):
    """Read altered expectations, and write them again."""
    given = mutated(rng, _some_lines(rng, EXPECTATIONS))
    try:
        made = expectation_text.loads(given)
        expectation_text.loads(expectation_text.dumps(made))
    except RulefieldError:
        return "refused", given
    return "used", given


def altered_columns(rng):
    """Read an altered column file, train on it, label it, write it."""
    return _corpus(rng, COLUMNS, ".conll")


def altered_json_lines(rng):
    """Read altered JSON lines, train on them, label them, write them."""
    return _corpus(rng, _some_lines(rng, JSON_LINES), ".jsonl")


def _some_lines(rng, text):
    entries = text.replace("\n- ", "\n\0- ").split("\0") if text.startswith("- ") else text.splitlines(keepends=True)
    return "".join(entries[i] for i in rng.choice(len(entries), size=int(rng.choice([1, 1, 1, 2])), replace=False))


def _corpus(rng, original, suffix):
    given = mutated(rng, original)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{suffix}"
        data = given.encode("utf-8", "surrogatepass")
        if rng.random() < 0.1:
            at = int(rng.integers(len(data) + 1))
            data = data[:at] + rng.bytes(2) + data[at:]
        path.write_bytes(data)
        try:
            corpus = read_corpus(str(path), labeled=bool(rng.random() < 0.8))
            crf = model()[0]
            if corpus.labels is not None:
                crf = rf.ChainCRF(max_iter=2, tol=1.0).fit(corpus.tokens, corpus.labels)
            "\n".join(with_labels(corpus, crf.predict(corpus.tokens))).encode()
        except RulefieldError:
            return "refused", given
    return "used", given


FAMILIES = {
    "rules": altered_rules,
    "expectations": altered_expectations,
    "columns": altered_columns,
    "json lines": altered_json_lines,
}
