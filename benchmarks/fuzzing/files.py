"""Altered files of annotation tools, of pages, of options, of graphs, and CRFsuite's binary models."""

import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import rulefield as rf
from fuzzing.texts import mutated
from rulefield.data.documents import Document, TextSpan, joined
from rulefield.datasets import read_uai, read_wcsp
from rulefield.encode.documents.files import is_page_file, read_pages, write_pages
from rulefield.encode.formats import FORMATS, read_documents, write_documents
from rulefield.exceptions import RulefieldError
from rulefield.inference.graph.decode import decode_graph

WORDS = ["Ada", "Lovelace", "wrote", "in", "1843", "&", "<é>"]
NAMES = {
    "table": "a.csv", "xml": "a.xml", "columns": "a.conll", "conllu": "a.conllu"
}  # fmt: skip
PAGE_XML = """<PcGts xmlns="http://schema.primaresearch.org/PAGE/gts/pagecontent/2013-07-15">
<Page imageFilename="scan 1" imageWidth="200" imageHeight="300">
<TextRegion id="r1"><Coords points="10,10 190,10 190,90 10,90"/>
<TextLine id="l1" custom="readingOrder {index:0;} structure {type:head;}"><Coords points="12,12 100,12 100,30 12,30"/>
<TextEquiv><Unicode>First &amp; line</Unicode></TextEquiv></TextLine>
<TextLine id="l2"><Coords points="12,40 100,40 100,60 12,60"/></TextLine></TextRegion>
<SeparatorRegion id="s1"><Coords points="0,35 200,36"/></SeparatorRegion></Page></PcGts>"""
BOXES = json.dumps({
    "page": "p1", "width": 100, "height": 50, "separators": [{"box": [0, 20, 100, 21], "orient": "horizontal"}],
    "lines": [{"box": [1, 1, 50, 10], "label": "head", "text": "one"}, {"box": [1, 22, 50, 30], "label": None}],
}) + "\n"  # fmt: skip
PAGES = {"a.page.xml": PAGE_XML, "a.jsonl": BOXES}
UAI = "MARKOV\n3\n2 2 3\n2\n2 0 1\n3 0 1 2\n4\n1 2 0 4\n12\n1 1 1 1 1 1 1 1 1 1 1 8\n"
WCSP = "tiny 3 3 2 100\n2 2 3\n2 0 1 0 2\n0 0 5\n1 1 100\n3 0 1 2 7 2\n0 1 2 0\n1 0 0 1\n"


def mutated_bytes(rng, data):
    """Return bytes with a few random changes."""
    made = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at, kind = int(rng.integers(len(made) + 1)), int(rng.integers(4))
        if kind == 0 and at < len(made):
            made[at] = int(rng.integers(256))
        elif kind == 1:
            del made[at : at + int(rng.integers(1, 40))]
        elif kind == 2:
            made[at:at] = rng.bytes(int(rng.integers(1, 20)))
        else:
            made[at : at + 4] = int(rng.choice([0, 1, 2**31, 2**32 - 1, len(made)])).to_bytes(4, "little")
    return bytes(made)


@cache
def documents():
    """Texts with spans of words, as all formats can hold them."""
    text, places = joined(WORDS)
    spans = (TextSpan(places[0][0], places[1][1], "name"), TextSpan(*places[4], "year"))
    return [Document(text, spans, places), Document("Alan", (TextSpan(0, 4, "name"),), ((0, 4),)), Document("x", ())]


@cache
def written(name):
    """Files of one format, unaltered: bytes by name inside a folder."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("folder" if name == "brat" else NAMES.get(name, "a.jsonl"))
        write_documents(documents(), path, name)
        return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def altered_format(rng):
    """Read an altered file of an annotation tool, by its name or by what is in it; write it in another format."""
    name, other = (str(rng.choice(sorted(FORMATS))) for _ in range(2))
    files = dict(written(name))
    which = str(rng.choice(sorted(files)))
    if rng.random() < 0.1:
        files[which] = mutated_bytes(rng, files[which])
    else:
        files[which] = mutated(rng, files[which].decode()).encode("utf-8", "surrogatepass")
    with tempfile.TemporaryDirectory() as folder:
        for inside, data in files.items():
            path = Path(folder) / inside
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        given = path.parent if name == "brat" else path
        try:
            found = list(read_documents(given, name if rng.random() < 0.5 else "auto"))
            write_documents(found, Path(folder) / ("out" if other == "brat" else "out.x"), other)
        except RulefieldError:
            return "refused", which
    return "used", which


@cache
def tagger():
    """A tagger that has met the pages as they are."""
    pages = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in PAGES.items():
            path = Path(folder) / name
            path.write_text(text)
            pages += read_pages(path)
    labels = [["head" if label else "text" for label in page.labels] for page in pages]
    return rf.DocumentTagger(model=rf.GraphCRF(max_iter=30)).fit(pages, labels)


def altered_page(rng):
    """Read an altered page, label it, write it."""
    name = str(rng.choice(sorted(PAGES)))
    given = mutated(rng, PAGES[name])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(given.encode("utf-8", "surrogatepass"))
        try:
            is_page_file(str(path))
            pages = read_pages(path)
            labels = tagger().predict(pages)
            write_pages(
                [page.with_labels(own) for page, own in zip(pages, labels)], path, Path(folder) / f"new.{name}"
            )
        except RulefieldError:
            return "refused", given
    return "used", given


def altered_graph_file(rng):
    """Read an altered UAI or WCSP file, and decode it."""
    text, read = ((UAI, read_uai), (WCSP, read_wcsp))[int(rng.integers(2))]
    given = mutated(rng, text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        path.write_bytes(given.encode("utf-8", "surrogatepass"))
        try:
            problem = read(path)
            if np.log(problem.potentials.n_labels).sum() < 20:
                decode_graph(problem, node_limit=100)
        except RulefieldError:
            return "refused", given
    return "used", given


@cache
def crfsuite_model():
    from rulefield.encode.crfsuite import CrfsuiteChain, crfsuite_bytes

    return crfsuite_bytes(CrfsuiteChain(**{
        "labels": ["N", "V"], "features": ["w=the", "w=Ada", "bias"], "transitions": np.array([[0.5, -1.0], [0.25, 2.0]]),
        "state_feature": np.array([0, 1, 2, 2]), "state_label": np.array([0, 1, 0, 1]),
        "state_weight": np.array([1.0, 0.5, -0.25, 0.1]),
    }))  # fmt: skip


def altered_crfsuite(rng):
    """Open an altered binary model of CRFsuite and use it."""
    given = mutated_bytes(rng, crfsuite_model())
    try:
        rf.load_crfsuite(given).predict_marginals([[{"w": "the", "bias": True}, {"w": "Ada"}]])
    except RulefieldError:
        return "refused", given
    return "used", given


FAMILIES = {
    "formats": altered_format,
    "pages": altered_page,
    "graph files": altered_graph_file,
    "crfsuite models": altered_crfsuite,
}
