"""``predict`` changes the labels of a file and nothing else: random files of six formats."""

import copy
import csv
import json
import os
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import rulefield as rf
from rulefield.data.pages import Page
from rulefield.datasets import make_addresses

FILES = int(os.environ.get("RULEFIELD_ROUND_TRIPS", "20"))
"""Random files of each format; 200 take two minutes."""
TEXTS, SPANS = make_addresses(80, seed=1, noise=0.2, messy=True)
ODD = ("é", "\u2028", '"', ",", "\\", "🙂", "|", "'", "\u00a0", "<b>")
WHITE = re.compile(r"\s+")


class Chance:
    """Random texts, values and records."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def one(self, values):
        return values[int(self.rng.integers(len(values)))]

    def text(self):
        extra = "".join(self.one(ODD) for _ in range(self.rng.integers(3)))
        return self.one(TEXTS) + extra

    def value(self, depth=2):
        kinds = [None, True, 3, -2.5, "", "a\nb", self.one(ODD), 10**17]
        if depth and self.rng.random() < 0.3:
            return self.one([[self.value(depth - 1)], {"k": self.value(depth - 1), "": 1}, [], {}])
        return self.one(kinds)

    def extra(self, *reserved):
        names = [
            n for n in ("customer", "id", "meta", "score", "tokens2", "Data", "ä", "created_at") if n not in reserved
        ]
        return {self.one(names): self.value() for _ in range(self.rng.integers(4))}

    def marks(self, text):
        a = int(self.rng.integers(len(text)))
        b = int(self.rng.integers(a + 1, len(text) + 1))
        return [[a, b, self.one(["city", "zip"])]] if self.rng.random() < 0.7 else []

    def sure(self, p):
        return bool(self.rng.random() < p)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("round") / "m.rf"
    rf.TextParser(model=rf.ChainCRF(scheme="BIO", l2=1.0, max_iter=20)).fit(TEXTS[:60], SPANS[:60]).save(path)
    return path


def doccano(chance):
    text = chance.text()
    record = {**chance.extra("id"), "text": text}
    if chance.sure(0.6):
        key = chance.one(["label", "labels"])
        record[key] = chance.marks(text)
    elif chance.sure(0.5):
        record["entities"] = [
            {"id": 3, "label": k, "start_offset": a, "end_offset": b} for a, b, k in chance.marks(text)
        ]
        record["relations"] = []
    return record


def prodigy(chance):
    text = chance.text()
    spans = [{"start": a, "end": b, "label": k, "source": "me"} for a, b, k in chance.marks(text)]
    record = {**chance.extra("id"), "text": text, "_input_hash": 7, "spans": spans}
    return {**record, "answer": chance.one(["accept", "reject", "ignore"])} if chance.sure(0.5) else record


def label_studio(chance):
    text = chance.text()
    field, names = chance.one([("text", ("label", "text")), ("citation", ("ner", "doc"))])
    data = {**{k: v for k, v in chance.extra(field).items() if not isinstance(v, str)}, field: text}
    task = {**chance.extra("data", "id"), "id": int(chance.rng.integers(999)), "data": data}
    value = [{"start": a, "end": b, "text": text[a:b], "labels": [k]} for a, b, k in chance.marks(text)]
    results = [{"id": "x", "from_name": names[0], "to_name": names[1], "type": "labels", "value": v} for v in value]
    results += [{"id": "c", "from_name": "kind", "to_name": "doc", "type": "choices", "value": {"choices": ["a"]}}]
    if chance.sure(0.7):
        task["annotations"] = [{"id": 5, "completed_by": 2, "was_cancelled": False, "result": results}]
    return task


def written(folder, form, records):
    path = folder / {"label-studio": "in.json"}.get(form, "in.jsonl")
    lines = "".join(json.dumps(record) + "\n" for record in records)
    path.write_text(json.dumps(records) if form == "label-studio" else lines)
    return path


def _as_list(mark):
    return [mark["start_offset"], mark["end_offset"], mark["label"]] if isinstance(mark, dict) else mark


def without(record, *keys):
    return {key: value for key, value in record.items() if key not in keys}


@pytest.mark.parametrize("form", ["doccano", "prodigy", "label-studio"])
def test_json_files_keep_all_but_the_labels(run, model, tmp_path, form):
    make = {"doccano": doccano, "prodigy": prodigy, "label-studio": label_studio}[form]
    labels = {"doccano": ("label", "labels", "entities"), "prodigy": ("spans",), "label-studio": ("predictions",)}[
        form
    ]
    parser = rf.load(model)
    for seed in range(FILES):
        chance = Chance(seed)
        records = [make(chance) for _ in range(chance.rng.integers(1, 4))]
        source, target = written(tmp_path, form, records), tmp_path / "out.json"
        code, _, said = run("predict", model, source, "-o", target, "--format", form)
        assert code == 0, (seed, said)
        text = target.read_text()
        found = json.loads(text) if form == "label-studio" else [json.loads(x) for x in text.split("\n") if x]
        assert [without(r, *labels) for r in found] == [without(r, *labels) for r in records], seed
        if form == "label-studio":
            for task, old in zip(found, records):
                known = [r for a in old.get("annotations", []) for r in a["result"] if r["type"] == "labels"]
                expected = ("label", "text") if "text" in old["data"] else ("label", "citation")
                expected = (known[0]["from_name"], known[0]["to_name"]) if known else expected
                own = task["predictions"][0]["result"]
                assert {(r["from_name"], r["to_name"]) for r in own} <= {expected}
        if form == "doccano":
            wanted = parser.predict([record["text"] for record in records])
            key = [next((k for k in labels if k in r), "label") for r in records]
            got = [[_as_list(mark) for mark in record[k]] for record, k in zip(found, key)]
            assert got == [[list(span) for span in row] for row in wanted]


def cell(chance, name):
    if name == "address":
        return chance.text()
    return "" if name == "spans" else chance.one([*ODD, "7", "", "a\nb"])


def test_tables_keep_all_but_the_spans(run, model, tmp_path):
    for seed in range(FILES):
        chance = Chance(seed)
        names = [n for n in ("id", "customer", "note", "ä b", "spans") if chance.sure(0.6)] + ["address"]
        chance.rng.shuffle(names)
        rows = [{name: cell(chance, name) for name in names} for _ in range(chance.rng.integers(1, 5))]
        source, target = tmp_path / "in.csv", tmp_path / "out.csv"
        with source.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
        code, _, said = run("predict", model, source, "-o", target, "--column", "address")
        assert code == 0, (seed, said)
        with target.open(newline="", encoding="utf-8") as file:
            found = list(csv.DictReader(file))
        assert [without(row, "spans") for row in found] == [without(row, "spans") for row in rows], seed
        assert all(json.loads(row["spans"]) is not None for row in found)


def conllu_sentence(chance, number):
    lines = [f"# sent_id = s{number}", f"# note = {chance.one(ODD).strip() or 'x'}"]
    words = WHITE.sub(" ", chance.one(TEXTS)).strip().split(" ")
    i = 0
    while i < len(words):
        misc = [m for m in ("SpaceAfter=No", "NER=O", "Gloss=x") if chance.sure(0.3)]
        cell = "|".join(misc) or "_"
        if chance.sure(0.1) and i + 1 < len(words):
            lines.append(f"{i + 1}-{i + 2}\t{words[i]}{words[i + 1]}" + "\t_" * 7 + f"\t{cell}")
            lines += [f"{i + k + 1}\t{words[i + k]}\tlemma\tX\t_\t_\t0\troot\t_\t_" for k in (0, 1)]
            i += 2
            continue
        lines.append(f"{i + 1}\t{words[i]}\tlemma\tNOUN\tNN\tCase=Nom\t0\troot\t_\t{cell}")
        if chance.sure(0.1):
            lines.append(f"{i + 1}.1\tgone" + "\t_" * 8)
        i += 1
    return lines


def test_conllu_keeps_all_but_the_labels(run, model, tmp_path):
    label = re.compile(r"NER=[^|\t\n]*")

    def bare(line):
        cells = line.split("\t")
        kept = [item for item in cells[-1].split("|") if not label.fullmatch(item) and item != "_"]
        return [*cells[:-1], kept] if len(cells) == 10 else cells

    for seed in range(FILES):
        chance = Chance(seed)
        sentences = [conllu_sentence(chance, k) for k in range(chance.rng.integers(1, 4))]
        source, target = tmp_path / "in.conllu", tmp_path / "out.conllu"
        source.write_text("".join("\n".join(lines) + "\n\n" for lines in sentences), encoding="utf-8")
        code, _, said = run("predict", model, source, "-o", target)
        assert code == 0, (seed, said)
        old, new = (path.read_text(encoding="utf-8").split("\n") for path in (source, target))
        assert [bare(line) for line in new] == [bare(line) for line in old], seed
        assert "NER=" in target.read_text(encoding="utf-8")


PAGE = "http://schema.primaresearch.org/PAGE/gts/pagecontent/2019-07-15"


def page_xml(chance):
    root = ElementTree.Element(f"{{{PAGE}}}PcGts", {"pcGtsId": "p"})
    ElementTree.SubElement(root, f"{{{PAGE}}}Metadata").text = chance.one(ODD)
    page = ElementTree.SubElement(root, f"{{{PAGE}}}Page", imageFilename="a.png", imageWidth="500", imageHeight="700")
    region = ElementTree.SubElement(page, f"{{{PAGE}}}TextRegion", id="r1", custom="readingOrder {index:0;}")
    ElementTree.SubElement(region, f"{{{PAGE}}}Coords", points="0,0 500,0 500,700 0,700")
    for k in range(chance.rng.integers(1, 6)):
        custom = " ".join(c for c in (f"readingOrder {{index:{k};}}", "structure {type:head;}") if chance.sure(0.6))
        line = ElementTree.SubElement(
            region, f"{{{PAGE}}}TextLine", id=f"l{k}", **({"custom": custom} if custom else {})
        )
        top = 20 * k + 5
        ElementTree.SubElement(line, f"{{{PAGE}}}Coords", points=f"10,{top} 200,{top} 200,{top + 12} 10,{top + 12}")
        text = ElementTree.SubElement(line, f"{{{PAGE}}}TextEquiv")
        ElementTree.SubElement(text, f"{{{PAGE}}}Unicode").text = chance.one(["Total 5", "é <b>", "x"])
    return root


def bare_tree(node):
    node = copy.deepcopy(node)
    for one in node.iter():
        custom = re.sub(r"structure \{[^}]*\}", "", one.attrib.pop("custom", "")).strip()
        one.attrib.update({"custom": custom} if custom else {})
        one.text, one.tail = ((x or "").strip() for x in (one.text, one.tail))
    return ElementTree.tostring(node)


def test_page_xml_keeps_all_but_the_labels(run, tmp_path):
    pages = []
    for n in (2, 3, 4):
        boxes = [[0, 0, 500, 700], *([10, 20 * k + 5, 200, 20 * k + 17] for k in range(n))]
        types, labels = ["block"] + ["line"] * n, ["region", "head"] + ["text"] * (n - 1)
        pages.append(Page(boxes, 500, 700, types=types, labels=labels, parents=[-1] + [0] * n))
    tagger = rf.DocumentTagger().fit([[page] for page in pages])
    tagger.save(tmp_path / "t.rf")
    sources = []
    trees = []
    for seed in range(FILES):
        trees.append(page_xml(Chance(seed)))
        sources.append(tmp_path / f"p{seed}.xml")
        ElementTree.ElementTree(trees[-1]).write(sources[-1], encoding="utf-8", xml_declaration=True)
    code, _, said = run("predict", tmp_path / "t.rf", *sources, "-o", tmp_path / "labeled")
    assert code == 0, said
    for tree, source in zip(trees, sources):
        found = ElementTree.parse(tmp_path / "labeled" / source.name).getroot()
        assert bare_tree(found) == bare_tree(tree), source.name
        lines = list(found.iter(f"{{{PAGE}}}TextLine"))
        assert all("structure {type:" in one.get("custom", "") for one in lines)
