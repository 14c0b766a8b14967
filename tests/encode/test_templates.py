"""CRF++ templates: the macro by its definition, and bad lines by number."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from rulefield.encode.templates import Template
from rulefield.exceptions import InputError

SENTENCE = [("He", "PRP"), ("reckons", "VBZ"), ("the", "DT")]


def cell(sentence, t, column):
    if t < 0:
        return f"_B{t}"
    if t >= len(sentence):
        return f"_B+{t - len(sentence) + 1}"
    return sentence[t][column]


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=1, max_size=4),
    st.lists(st.tuples(st.text("ab%", max_size=2), st.text("xy", max_size=2)), max_size=5),
)
def test_macros_by_definition(cells, sentence):
    line = "U07:" + "/".join(f"%x[{row},{column}]" for row, column in cells)
    made = Template(line).transform([sentence])[0]
    for t, features in enumerate(made):
        assert features == ["U07:" + "/".join(cell(sentence, t + row, column) for row, column in cells)]
    assert len(made) == len(sentence)


def test_a_whole_template():
    text = "# words\nU00:%x[-2,0]\nU01:%x[0,0]\n\nU02:%x[-1,1]/%x[0,1] end\nU03:bias\nB\nB05:%x[0,1]\n"
    template = Template(text)
    assert template.fit([]).transform([SENTENCE])[0][1] == [
        "U00:_B-1",
        "U01:reckons",
        "U02:PRP/VBZ end",
        "U03:bias",
        "B05:VBZ",
    ]
    assert template.transition_prefixes == ["B05:"]
    assert Template("U0:%x[0,0]").transform([["plain", "words"], []]) == [[["U0:plain"], ["U0:words"]], []]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("U0:%x[0,0]\nX1:%x[0,0]", "template line 2 must begin with U, B or #"),
        ("U0:%x[0,0]\n\nU1:%x[0]", "template line 3 has a macro that is not"),
        ("U0:%y[0,0]", "template line 1 has a macro"),
        ("B", "at least one line that begins with U"),
        ("U0:%x[0,2]", "reads column 2, but token 0 of sequence 0 has 2 columns"),
    ],
)
def test_bad_templates(text, match):
    with pytest.raises(InputError, match=match):
        Template(text).transform([SENTENCE])


def test_a_missing_column_is_placed():
    with pytest.raises(InputError, match="reads column 1, but token 1 of sequence 2 has 1 column"):
        Template("U0:%x[0,1]").transform([[("a", "b")], [], [("c", "d"), ("e",)]])


def test_files_clones_and_configs(tmp_path):
    path = tmp_path / "template"
    path.write_text("U0:%x[0,0]")
    template = Template.from_file(path)
    for copy in (clone(template), pickle.loads(pickle.dumps(template)), Template.from_config(template.to_config())):
        assert copy.transform([SENTENCE]) == template.transform([SENTENCE])
