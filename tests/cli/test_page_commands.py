"""``rulefield train`` and ``predict`` on files of pages."""

import json

from typer.testing import CliRunner

from rulefield.cli.main import app
from rulefield.encode.documents.files import read_pages


def page_file(folder, name, n_cells, labeled=True):
    lines, rulings, at = [], [], 10
    for cell in range(n_cells):
        rulings.append({"box": [0, at - 4, 200, at - 3]})
        for k in range(1 + cell % 3):
            lines.append(
                {"box": [10, at, 100 + 5 * k, at + 10], "label": ("head" if k == 0 else "text") if labeled else None}
            )
            at += 14
    record = {"page": name, "width": 200, "height": 300, "lines": lines, "separators": rulings}
    (folder / f"{name}.jsonl").write_text(json.dumps(record))
    return str(folder / f"{name}.jsonl")


def test_train_and_predict_pages(tmp_path):
    known = [page_file(tmp_path, f"old{n}", n) for n in (3, 4, 5, 6)]
    new = [page_file(tmp_path, f"new{n}", n, labeled=False) for n in (4, 7)]
    run = CliRunner().invoke
    model = str(tmp_path / "table.rf")
    made = run(app, ["train", *known, "-o", model])
    assert made.exit_code == 0, made.output
    found = run(app, ["predict", model, *new, "-o", str(tmp_path / "labeled")])
    assert found.exit_code == 0, found.output
    (page,) = read_pages(tmp_path / "labeled" / "new7.jsonl")
    assert page.labels.count("head") == 7
    assert run(app, ["predict", model, *new]).exit_code != 0
    assert "1 document, " in run(app, ["train", known[0], "-o", str(tmp_path / "one.rf")]).stderr
    (tmp_path / "bad.xml").write_text("no page")
    for command, told in [
        (["train", *new, "-o", model], "no box in these files has a label"),
        (["predict", model, str(tmp_path / "bad.xml"), "-o", str(tmp_path / "labeled")], "is none of PAGE XML"),
        (["evaluate", new[0], model], "labels pages: rulefield predict takes it"),
    ]:
        refused = run(app, command)
        assert refused.exit_code != 0
        assert told in str(refused.exception)
    (tmp_path / "a.conll").write_text("a A\n")
    assert run(app, ["train", known[0], str(tmp_path / "a.conll"), "-o", model]).exit_code != 0


def test_pages_become_json_to_be_labeled(tmp_path):
    source = page_file(tmp_path, "scan", 3, labeled=False)
    done = CliRunner().invoke(app, ["convert", source, str(tmp_path / "boxes.jsonl")])
    assert done.exit_code == 0, done.output
    (old,), (new,) = read_pages(source), read_pages(tmp_path / "boxes.jsonl")
    assert new.boxes.tolist() == old.boxes.tolist()
    refused = CliRunner().invoke(app, ["convert", source, str(tmp_path / "boxes.csv")])
    assert "name a file such as pages.jsonl" in str(refused.exception)
