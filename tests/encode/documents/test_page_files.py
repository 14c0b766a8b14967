"""Files of pages: PAGE XML, JSON and PDF are read, labeled, written and read again; bad ones are refused in a sentence."""

import dataclasses
import io
import json
import re
import sys
import time
import zlib

import pytest

import rulefield as rf
from rulefield.encode.documents import pdf
from rulefield.encode.documents.boxes import unique_names
from rulefield.encode.documents.files import is_page_file, read_pages, write_pages
from rulefield.exceptions import InputError

PAGE_XML = """<PcGts xmlns="http://schema.primaresearch.org/PAGE/gts/pagecontent/2013-07-15">
<Page imageFilename="scan 1" imageWidth="200" imageHeight="300">
<TextRegion id="r1" custom="readingOrder {index:0;}"><Coords points="10,10 190,10 190,90 10,90"/>
<TextLine id="l1" custom="readingOrder {index:0;} structure {type:heading;}"><Coords points="12,12 100,12 100,30 12,30"/>
<TextEquiv><Unicode>First &amp; line</Unicode></TextEquiv></TextLine>
<TextLine id="l2"><Coords points="12,40 100,40 100,60 12,60"/></TextLine></TextRegion>
<SeparatorRegion id="s1"><Coords points="0,35 200,36"/></SeparatorRegion></Page></PcGts>"""


def test_xml_is_read_labeled_and_read_again(tmp_path):
    path = tmp_path / "page.xml"
    path.write_text(PAGE_XML)
    assert is_page_file(str(path))
    (page,) = read_pages(path)
    assert page.boxes.tolist() == [[10, 10, 190, 90], [12, 12, 100, 30], [12, 40, 100, 60]]
    assert (page.width, page.height, page.name) == (200, 300, "scan 1")
    assert page.types == ("block", "line", "line")
    assert page.parents.tolist() == [-1, 0, 0]
    assert page.texts[1] == "First & line"
    assert page.labels == (None, "heading", None)
    assert page.separators.tolist() == [[0, 35, 200, 36]]
    out = write_pages([page.with_labels([None, "date", "place"])], path, tmp_path / "new.xml")
    (again,) = read_pages(out)
    assert again.labels == (None, "date", "place")
    assert again.boxes.tolist() == page.boxes.tolist()
    assert again.texts == page.texts


def test_boxes_without_names_get_their_own_labels(tmp_path):
    path = tmp_path / "page.xml"
    path.write_text(re.sub(r' id="(r1|l1|l2)"', "", PAGE_XML))
    (page,) = read_pages(path)
    assert len(set(page.ids)) == 3
    out = write_pages([page.with_labels(["table", "date", "place"])], path, tmp_path / "new.xml")
    assert read_pages(out)[0].labels == ("table", "date", "place")
    nameless = dataclasses.replace(
        page, ids=None, labels=("a", "b", "c")
    )  # a page of a user's own, in the file's order
    assert read_pages(write_pages([nameless], path, out))[0].labels == ("a", "b", "c")
    with pytest.raises(InputError, match="it has 1, got 2"):
        write_pages([page, page], path, out)
    with pytest.raises(InputError, match="2 boxes without ids, in the file it has 3"):
        write_pages([rf.formats.Page(page.boxes[1:], labels=["a", "b"])], path, out)


def test_names_that_stand_twice_are_told_apart():
    assert unique_names(["a", "", "a", "#1", "", "#2"]) == ["a", "##1", "##2", "#1", "#4", "#2"]


@pytest.mark.parametrize("label", ["a;b", "", " a"])
def test_labels_that_a_format_cannot_hold_are_refused(label, tmp_path):
    path = tmp_path / "page.xml"
    path.write_text(PAGE_XML)
    (page,) = read_pages(path)
    with pytest.raises(InputError, match="cannot hold the label"):
        write_pages([page.with_labels([None, label, None])], path, tmp_path / "out.xml")


def test_json_is_read_and_written(tmp_path):
    record = {
        "page": "p1", "width": 100, "height": 50, "separators": [{"box": [0, 20, 100, 21], "orient": "horizontal"}],
        "lines": [{"box": [1, 1, 50, 10], "row": "B", "text": "one"}, {"box": [1, 22, 50, 30], "row": None}],
    }  # fmt: skip
    path = tmp_path / "pages.jsonl"
    path.write_text(json.dumps(record) + "\n")
    assert is_page_file(str(path))
    (page,) = read_pages(path, "row")
    assert page.labels == ("B", None)
    assert page.texts == ("one", "")
    write_pages([page.with_labels(["B", "E"])], path, tmp_path / "out.jsonl")
    (again,) = read_pages(tmp_path / "out.jsonl")
    assert again.labels == ("B", "E")
    assert again.separators.tolist() == [[0, 20, 100, 21]]
    assert json.loads((tmp_path / "out.jsonl").read_text())["lines"][0]["row"] == "B"  # what we do not read is kept
    for text in (json.dumps([record, record]), json.dumps(record, indent=1)):
        path = tmp_path / "pages.json"
        path.write_text(text)
        assert is_page_file(str(path))
        pages = [page.with_labels(["B", "E"]) for page in read_pages(path, "row")]
        write_pages(pages, path, tmp_path / "out.json")
        assert [page.labels for page in read_pages(tmp_path / "out.json")] == [("B", "E")] * len(pages)
        assert isinstance(json.loads((tmp_path / "out.json").read_text()), type(json.loads(text)))


def pdf_of(content):
    """A PDF of one page, 200 points wide and high; its content is packed."""
    content = zlib.compress(content, 9)
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d /Filter /FlateDecode >> stream\n" % len(content) + content + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    file, places = io.BytesIO(), []
    file.write(b"%PDF-1.4\n")
    for k, part in enumerate(parts, 1):
        places.append(file.tell())
        file.write(b"%d 0 obj " % k + part + b" endobj\n")
    start = file.tell()
    file.write(b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % at for at in places))
    file.write(b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % start)
    return file.getvalue()


def test_pdf_lines_and_rulings_are_read(tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf_of(b"BT /F1 12 Tf 20 150 Td (First line) Tj 0 -40 Td (Second) Tj ET 0 130 m 200 130 l S"))
    (page,) = read_pages(path)
    assert page.texts == ("First line", "Second")
    assert len(page.separators) == 1
    assert write_pages([page.with_labels(["a", "b"])], path, tmp_path / "a.pdf.out").suffix == ".jsonl"
    path.write_bytes(b"%PDF-1.4 nonsense")
    with pytest.raises(InputError, match="not a PDF|no page"):
        read_pages(path) or pytest.fail("read")


LETTERS = b"BT /F1 12 Tf " + b"1 0 0 1 9 9 Tm (abc) Tj " * 50 + b"ET"


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of processes")
@pytest.mark.parametrize(
    ("content", "limit", "most", "told"),
    [
        (b"\0" * 40_000_000, None, 0, "unpacks to more than 100 times its size"),
        (LETTERS, "MOST_OBJECTS", 100, "more than 100 letters and lines"),
        (b"\0" * 16_000_000, "PAGE_SECONDS", 0, "takes more than"),
        (LETTERS * 300, "MOST_MEGABYTES", 80, "80 MB"),
        (LETTERS, "MOST_BYTES", 100, "more than 100 bytes"),
    ],
    ids=["bomb", "letters", "time", "memory", "size"],
)
def test_a_pdf_has_limits(tmp_path, monkeypatch, content, limit, most, told):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf_of(content))
    if limit is not None:
        monkeypatch.setattr(pdf, limit, most)
    begun = time.monotonic()
    with pytest.raises(InputError, match=told):
        read_pages(path)
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.xml", "<PcGts><Page", r"a.xml' is not XML: unclosed token: line 1, column 7, near '<PcGts><Page'"),
        ("a.xml", "<PcGts/>", "holds no page"),
        ("a.json", "", "holds no page"),
        ("a.xml", '<?xml version="1.0" encoding="no-such"?><PcGts/>', "is not XML"),
        ("a.xml", "<other/>", "no PAGE XML: its root is <other>"),
        ("a.jsonl", '{"lines": [{"box": [0, 0, 1, %s]}]}' % ("9" * 400), "boxes of a page must be numbers"),
        ("a.jsonl", '{"lines": [], "width": %s}' % ("9" * 400), "width of a page must be a number from 0 to"),
        ("a.jsonl", '{"lines": [{"box": [0, 0, 1, 1], "parent": %s}]}' % ("9" * 400), "parents of a page must be"),
        ("a.xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "refused"),
        ("a.xml", '<PcGts><Page imageWidth="x" imageHeight="1"/></PcGts>', "imageWidth"),
        (
            "a.xml",
            '<PcGts><Page imageWidth="1" imageHeight="1"><TextLine id="l"><Coords points="1"/></TextLine></Page></PcGts>',
            "id='l'",
        ),
        ("a.jsonl", '{"lines": [{"no": 1}]}', "box"),
        ("a.jsonl", '{"lines": [{"box": [2, 0, 1, 1]}]}', "left <= right"),
        ("a.txt", "", "no file of pages"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(name, text, told, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        read_pages(path)


def test_a_picture_shows_what_is_wrong():
    from matplotlib import pyplot as plt

    from rulefield.plots import draw_page

    page = rf.formats.Page([[0, 0, 50, 10], [0, 20, 50, 30]], 60, 40, labels=["a", "b"], separators=[[0, 14, 60, 16]])
    ax = draw_page(page, gold=["a", "a"])
    assert [patch.get_edgecolor()[:3] == (1, 0, 0) for patch in ax.patches] == [False, True]
    with pytest.raises(InputError, match="labels must hold"):
        draw_page(page, ["a"])
    plt.close("all")
