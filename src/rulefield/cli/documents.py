"""``rulefield train`` and ``rulefield predict`` on files of pages."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from rulefield.cli.corpus import counted, protect_inputs, say
from rulefield.cli.models import penalty, read_train_rules
from rulefield.cli.options import TrainOptions
from rulefield.exceptions import InputError

DOCUMENT = "document"
USUAL_L2 = 2.0


def are_pages(files: Sequence[str]) -> bool:
    """Whether all files are files of pages; some of each kind is an error."""
    from rulefield.encode.documents.files import is_page_file

    kinds = {is_page_file(name) for name in files if name != "-"}
    if len(kinds) > 1:
        raise InputError("some of these files hold pages and some do not; give files of one kind.")
    return kinds == {True}


def run_page_train(files: Sequence[str], model: str, options: TrainOptions) -> None:
    """Read pages, learn, save, say what came out; the pages of one file are one document."""
    from rulefield.encode.documents.files import read_pages
    from rulefield.estimators.documents.tagger import DocumentTagger
    from rulefield.estimators.graph.estimator import GraphCRF

    begin = perf_counter()
    documents = [one for name in files for one in _documents(read_pages(name))]
    if all(label is None for pages in documents for page in pages for label in page.labels or ()):
        raise InputError(
            'no box in these files has a label; PAGE XML has them in custom="structure {type:...;}", JSON in "label".'
        )
    crf = GraphCRF(
        l2=penalty("l2", options.l2, USUAL_L2),
        max_iter=options.max_iter,
        rules=read_train_rules(options),
        random_state=options.seed,
        n_jobs=options.jobs,
    )
    tagger = DocumentTagger(model=crf).fit(documents)
    tagger.save(model)
    if not options.quiet:
        boxes = sum(page.n_boxes for pages in documents for page in pages)
        say(
            f"{counted(len(documents), 'document')}, {counted(boxes, 'box', 'boxes')}, "
            f"{counted(len(tagger.classes_), 'label')}, {counted(tagger.model_.n_parameters_, 'weight')}, "
            f"{counted(tagger.model_.n_iter_, 'iteration')}, "
            f"{perf_counter() - begin:.1f} s; saved to {model}"
        )


def _documents(pages: list[Any]) -> list[list[Any]]:
    """Pages of a JSON file of many scans stand alone where they have names of their own; else a file is one document."""
    named = {page.name for page in pages}
    return [[page] for page in pages] if len(named) == len(pages) > 1 and _scans(pages) else [pages]


def _scans(pages: list[Any]) -> bool:
    return not all(page.name.startswith("page") for page in pages)


def run_page_predict(model: str, files: Sequence[str], output: str, rules: str | None, jobs: int) -> None:
    """Label the pages of each file and write it, with the labels put in, to a folder."""
    from rulefield.cli.prediction import read_rules
    from rulefield.encode.documents.files import read_pages, write_pages
    from rulefield.estimators.saving import load

    folder = Path(output)
    if output == "-" or folder.is_file():
        raise InputError("files of pages are written to a folder; give one: --output labeled/.")
    if len({Path(name).name for name in files}) < len(files):
        raise InputError("two of these files have the same name; they would be written to the same place.")
    tagger = load(model)
    if getattr(tagger, "_kind", None) != DOCUMENT:
        raise InputError(f"{model!r} holds no model of pages; train one with rulefield train pages/*.xml -o {model}.")
    tagger.model_.n_jobs = jobs
    acting = read_rules(rules)
    folder.mkdir(parents=True, exist_ok=True)
    for name in files:
        target = folder / Path(name).name
        protect_inputs(str(target), [model, *files])
        documents = _documents(read_pages(name))
        write_pages([page for pages in tagger.label(documents, rules=acting) for page in pages], name, target)
