"""Text models of CRF++ and Wapiti, written by hand: what is read is what the formats say; damage is refused in a sentence.

The formats were held once against the tools themselves (CRF++ 0.58's tagger, Wapiti 1.5.0): no label differed, and no
marginal by more than what they print.
"""

import itertools
from contextlib import suppress

import numpy as np
import pytest

import rulefield as rf
from rulefield.encode.foreign.crfpp import read_crfpp
from rulefield.encode.foreign.wapiti import read_wapiti
from rulefield.encode.foreign.wapiti_patterns import WapitiPatterns
from rulefield.encode.foreign.weights import MOST_LABELS
from rulefield.exceptions import InputError, ModelFileError

SENTENCE = [("He", "PRP"), ("runs", "VBZ"), ("runs", "DT")]


def crfpp_model(labels, templates, features, weights, **header):
    settings = {"version": 100, "cost-factor": 1, "maxid": len(weights), "xsize": 2} | header
    parts = [
        [f"{name}: {value}" for name, value in settings.items()],
        labels,
        templates,
        [f"{place} {name}" for name, place in features.items()],
        [f"{w:.16f}" for w in weights],
    ]
    return ("\n\n".join("\n".join(part) for part in parts) + "\n").encode()


def wapiti_model(patterns, labels, observations, weights, kind=2, autouni=0):
    strings = lambda rows: "".join(f"{len(row.encode())}:{row},\n" for row in rows)  # noqa: E731
    lines = "".join(f"{place}={float(w).hex()}\n" for place, w in weights.items())
    head = f"#mdl#{kind}#{len(weights)}\n#rdr#{len(patterns)}/1/{autouni}\n"
    names = f"#qrk#{len(labels)}\n{strings(labels)}#qrk#{len(observations)}\n{strings(observations)}"
    return (head + strings(patterns) + names + lines).encode()


def marginals_by_enumeration(score, n, labels):
    """Probability of each label at each token, from the score of every labeling."""
    paths = list(itertools.product(range(len(labels)), repeat=n))
    chance = np.exp([score(path) for path in paths])
    chance /= chance.sum()
    return [
        {label: sum(p for path, p in zip(paths, chance) if path[t] == j) for j, label in enumerate(labels)}
        for t in range(n)
    ]


@pytest.fixture(scope="module")
def crfpp():
    rng = np.random.default_rng(0)
    features = {"U0:He": 0, "U0:runs": 2, "U1:PRP/VBZ": 4, "B": 6, "B2:VBZ": 10}
    weights = rng.normal(size=14)
    return (
        features,
        weights,
        crfpp_model(["N", "V"], ["U0:%x[0,0]", "U1:%x[-1,1]/%x[0,1]", "B", "B2:%x[0,1]"], features, weights),
    )


def test_crfpp_by_its_definition(crfpp):
    _, w, data = crfpp

    def score(path):
        a, b, c = path
        words = w[0 + a] + w[2 + b] + w[2 + c] + w[4 + b]  # U1:PRP/VBZ is made at the second token only
        steps = (
            w[6 + 2 * a + b] + w[6 + 2 * b + c] + w[10 + 2 * a + b]
        )  # B2:VBZ speaks for the step into the second token
        return words + steps

    crf = rf.compat.load_crfpp(data)
    found = crf.predict_marginals([SENTENCE])[0]
    for row, expected in zip(found, marginals_by_enumeration(score, 3, ["N", "V"])):
        assert row == pytest.approx(expected)
    assert crf.model_.conditioned


def test_crfpp_files_are_kept_and_parse_texts(tmp_path):
    data = crfpp_model(["N", "V"], ["U0:%x[0,0]", "B"], {"U0:runs": 0, "B": 2}, [0.0, 2.0, 0.5, 0, 0, 0], xsize=1)
    (tmp_path / "model.txt").write_bytes(data.replace(b"\n", b"\r\n"))
    crf = rf.compat.load_crfpp(tmp_path / "model.txt")
    crf.save(tmp_path / "m.rf")
    assert rf.load(tmp_path / "m.rf").predict([["He", "runs"]])[0] == ["N", "V"] == crf.predict([["He", "runs"]])[0]
    assert rf.compat.load_crfpp(data, tokenizer="words").parse("He runs").fields == {"N": "He", "V": "runs"}


def test_wapiti_by_its_definition():
    rng = np.random.default_rng(1)
    patterns = ["u0:%X[0,0]", '*1:%t[0,1,"^V"]', "b", "b2:%x[-1,1]"]
    seen = ["u0:he", "*1:true", "b", "b2:PRP"]  # places 0, 2 (state) and 4 (steps), 8, 12
    w = dict(enumerate(rng.normal(size=16)))
    crf = rf.compat.load_wapiti(wapiti_model(patterns, ["N", "V"], seen, w))

    def score(path):
        a, b, c = path
        words = w[a] + w[2 + b]
        steps = w[4 + 2 * a + b] + w[8 + 2 * a + b] + w[8 + 2 * b + c] + w[12 + 2 * a + b]
        return words + steps

    for row, expected in zip(crf.predict_marginals([SENTENCE])[0], marginals_by_enumeration(score, 3, ["N", "V"])):
        assert row == pytest.approx(expected)


def test_wapiti_without_patterns_takes_features():
    model = wapiti_model([], ["N", "V"], ["ucapital", "us"], {0: 1.5, 3: 2.0}, autouni=1)
    assert rf.compat.load_wapiti(model).predict([[["capital"], ["s", "never seen"]]])[0] == ["N", "V"]
    whole = wapiti_model([], ["N", "V"], ["ucapital", "us"], {0: 1.5, 3: 2.0})
    assert rf.compat.load_wapiti(whole).predict([[["ucapital"], ["us"]]])[0] == ["N", "V"]


@pytest.mark.parametrize(
    ("pattern", "made"),
    [
        ("u:%x[-2,0]|%x[-9,0]|%x[3,0]", ["u:_x-2|_x-#|_x+1", "u:_x-1|_x-#|_x+2", "u:Été|_x-#|_x+3"]),
        ("u:%x[@1,0]/%x[@-1,0]", ["u:Été/a.b"] * 3),
        ('u:%t[0,0,"^\\u"]', ["u:false", "u:false", "u:false"]),  # É is two bytes, none of them a capital letter
        ('u:%t[0,0,"\\d\\d*$"]', ["u:false", "u:true", "u:false"]),
        ('u:%m[0,0,".?.?$"]', ["u:é", "u:43", "u:.b"]),  # the last two bytes are one letter
        ('u:%m[0,0,"\\A*"]', ["u:", "u:", "u:"]),  # as few as possible is nothing
        ('u:%M[0,0,"T.*n"]%m[0,0,"\\."]', ["u:", "u:", "u:."]),
        ('u:%m[0,0,".?$"]', ["u:\udca9", "u:3", "u:b"]),  # half a letter
        ("u:%X[0,0]", ["u:Été", "u:1843", "u:a.b"]),
    ],
)  # fmt: skip
def test_patterns(pattern, made):
    assert [row[0] for row in WapitiPatterns(pattern).transform([["Été", "1843", "a.b"]])[0]] == made


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x:%x[0,0]", "pattern 1 must begin with u, b or"),
        ("u:%y[0,0]", "pattern 1 has a command that is not"),
        ('u:%x[0,0,"a"]', "%x takes a place alone"),
        ("u:%t[0,0]", "%x takes a place alone"),
        ('u:%t[0,0,"*a"]', "follow a character"),
        ("u:%x[0,2000]", "looks too far"),
        ("u:%x[0,3]", "reads column 3, but token 0 of sequence 0 has 1"),
    ],
)
def test_bad_patterns(text, sentence):
    with pytest.raises(InputError, match=sentence):
        WapitiPatterns(text).fit([]).transform([["a"]])


def many(n):
    return [f"L{i}" for i in range(n)]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "does not begin with 'version:'"),
        (b"version: 100\n\nA\n", "is cut short: it has 3 of the five sections"),
        (crfpp_model(["A"], ["U"], {"U": 0}, [1.0], maxid=2), "has 1 weights where its header says 2"),
        (crfpp_model(["A", "B"], ["U"], {"U": 0}, [1.0]), "points behind the last weight"),
        (crfpp_model(["A"], ["U"], {"U": 0, "Ux": 0}, [1.0]), "points behind the last weight"),
        (crfpp_model(["A"], ["U"], {"X": 0}, [1.0]), "begins with neither U nor B"),
        (crfpp_model(["A", "A"], ["U"], {"U": 0}, [1.0, 1.0]), "the same name twice"),
        (crfpp_model(["A"], ["U"], {"U": 0}, [np.inf]), "state_weight.* is not as it must be"),
        (crfpp_model(["A"], ["U"], {"U": 0}, [1.0], maxid="9" * 30), "maxid must be a whole number"),
        (crfpp_model(many(MOST_LABELS + 1), ["U"], {}, []), "labels; 5000 are the most"),
    ],
)
def test_damaged_crfpp_models(data, sentence):
    with pytest.raises(ModelFileError, match=sentence):
        read_crfpp(data)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "does not begin with '#mdl#'"),
        (b"#mdl#2#1\n#rdr#5/1/0\n3:u:a", "a name does not end where its length says"),
        (b"#mdl#2#1\n#rdr#5/1/0\n", "a name has no length"),
        (b"#mdl#2#1", "cut short"),
        (b"#mdl#2#x\n", "must be a whole number"),
        (wapiti_model([], ["A"], ["ua"], {0: 1.0}, kind=1), "no CRF"),
        (wapiti_model([], ["A"], ["xa"], {0: 1.0}), "begins with something else than u, b"),
        (wapiti_model([], ["A"], ["ua"], {7: 1.0}), "a weight belongs to no observation"),
        (wapiti_model([], ["A"], ["ua"], {0: np.nan}), "state_weight.* is not as it must be"),
        (wapiti_model([], ["A"], ["ua"], {0: 1.0}) + b"junk", "2 weights where it says 1|1 weights where it says 1"),
        (wapiti_model([], ["A"], ["ua"], {0: 1.0}).replace(b"0=0x", b"0=zz"), "a weight is not a number"),
        (wapiti_model(["u:%x[0,0]"], ["A"], ["ua"], {}, autouni=1), "cannot be read together"),
        (wapiti_model([], many(MOST_LABELS + 1), ["ua"], {}), "labels; 5000 are the most"),
    ],
)
def test_damaged_wapiti_models(data, sentence):
    with pytest.raises(ModelFileError, match=sentence):
        read_wapiti(data)


@pytest.mark.parametrize("reader", [read_crfpp, read_wapiti])
def test_any_byte_may_be_wrong(reader, crfpp):
    data = (
        crfpp[2]
        if reader is read_crfpp
        else wapiti_model(["u:%x[0,0]", "b"], ["A", "B"], ["u:x", "b"], {0: 1.0, 3: 0.5})
    )
    rng = np.random.default_rng(0)
    for _ in range(400):
        broken = bytearray(data)
        for place in rng.integers(0, len(broken), size=rng.integers(1, 4)):
            broken[place] = rng.integers(0, 256)
        with suppress(ModelFileError):
            reader(bytes(broken)[: rng.integers(1, len(broken) + 1)])
