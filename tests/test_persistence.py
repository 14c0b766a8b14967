"""A model file comes back as it was saved, or is refused with a sentence."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import save

import rulefield as rf
from rulefield import outputs, persistence
from rulefield import rules as r
from rulefield.exceptions import InputError, LabelError, ModelFileError
from rulefield.persistence import load_model, model_to_bytes, pack_strings, save_model, unpack_strings

ARRAYS = {"theta": np.arange(5.0), "empty": np.zeros((0, 3)), "bytes": np.arange(4, dtype=np.uint8)}
METADATA = {"labels": ["a", "ü"], "l2": 1.0, "nothing": None}


def test_round_trip_through_a_file(tmp_path):
    save_model(tmp_path / "m.rulefield", "chain", ARRAYS, METADATA)
    kind, arrays, metadata = load_model(tmp_path / "m.rulefield")
    assert (kind, metadata) == ("chain", METADATA)
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
    assert [p.name for p in tmp_path.iterdir()] == ["m.rulefield"], "a temporary file was left behind"


def test_same_model_same_bytes():
    assert model_to_bytes("chain", ARRAYS, METADATA) == model_to_bytes(
        "chain", dict(reversed(ARRAYS.items())), METADATA
    )


@pytest.mark.parametrize("cut", [0, 3, 8, 60, -1])
def test_truncated(cut):
    with pytest.raises(ModelFileError, match="damaged|cut short"):
        load_model(model_to_bytes("chain", ARRAYS, METADATA)[:cut])


def test_tampered_array_and_metadata():
    data = model_to_bytes("chain", ARRAYS, METADATA)
    with pytest.raises(ModelFileError, match="changed after it was saved"):
        load_model(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ModelFileError, match="changed after it was saved"):
        load_model(data.replace(b"1.0", b"2.0"))


def test_foreign():
    with pytest.raises(ModelFileError, match="not a rulefield model"):
        load_model(save({"x": np.zeros(2)}))
    with pytest.raises(ModelFileError, match="not a rulefield model"):
        load_model(b"PK\x03\x04 this is a zip file, or so it says")


def test_newer_format(monkeypatch):
    monkeypatch.setattr(persistence, "FORMAT", 2)
    data = model_to_bytes("chain", ARRAYS, METADATA)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="update rulefield"):
        load_model(data)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(ModelFileError, match="no model file"):
        load_model(tmp_path / "none")
    with pytest.raises(InputError, match="does not exist"):
        save_model(tmp_path / "no" / "m", "chain", {}, {})


def test_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m"
    save_model(path, "chain", ARRAYS, METADATA)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(outputs.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save_model(path, "chain", {}, {})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_strings():
    strings = ["", "word=a", "ü\u0000b", "", json.dumps({"x": 1})]
    assert unpack_strings(**pack_strings(strings)) == strings
    assert unpack_strings(**pack_strings([])) == []


@pytest.mark.parametrize("name", ["\ud800", "a\udfff"])
def test_names_that_no_file_can_hold_are_refused_when_they_are_saved(tmp_path, name):
    labels = rf.ChainCRF(max_iter=2).fit([["a", "b"]], [[name, "q"]])
    rule = rf.ChainCRF(max_iter=2, rules=[(r.count("q") <= 1).named(name)]).fit([["a", "b"]], [["p", "q"]])
    task = rf.JointCRF(max_iter=2).fit([["a", "b"]], [{name: ["p", "q"], "t": ["p", "q"]}])
    for model in (labels, rule, task):
        with pytest.raises(InputError, match="cannot be saved.*surrogate") as refused:
            model.save(tmp_path / "m.rf")
        assert ascii(name)[1:-1] in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_labels_that_no_file_can_hold_are_refused():
    for label in (10**5000, -(2**70)):
        with pytest.raises(LabelError, match="as a string"):
            rf.ChainCRF(max_iter=2).fit([["a", "b"]], [[label, "q"]])
    with pytest.raises(LabelError, match="labels are strings or numbers"):
        rf.ChainCRF(max_iter=2).fit([["a", "b"]], [["q", {"a": 1}]])
