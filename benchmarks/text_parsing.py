"""Text in, fields out: defaults against python-crfsuite's tutorial, calibration, throughput from strings, start-up.

*Defaults.* ``TextParser()``, nothing set, against python-crfsuite with the features of its tutorial (without the column of
parts of speech), c1 = c2 = 0.1, 100 iterations, all transitions possible: both learn and label the same tokens, those of the
parser. Five random splits each of Cora (300 / 200), US50 (51 / 690), company names (80 / 20 %), CoNLL-2002 (draws of 1,000
sentences, tested on esp.testb) and generated addresses (200 / 400). Points of token accuracy with BIO prefixes; of span F1 on
CoNLL-2002.

*Calibration.* Probability of the whole text against whether all of its spans are right, 10 bins of equal width, over the
five splits of Cora and US50.

*Throughput.* CPU seconds, one thread, strings in and labeled spans out, against usaddress's tokenizer, features and
python-crfsuite with usaddress's own model, on the same generated addresses.

*Start-up.* Wall seconds of a warm ``rulefield parse MODEL TEXT`` over those of ``python -c "import numpy, numba"``, the least
of alternating runs.

*Memory.* Resident memory of ``rulefield parse MODEL -`` after 10,000 generated addresses and after all of them, through a
pipe; their numbers are always new. Takes minutes, so only where it is asked for.

    RULEFIELD_DATA=... python benchmarks/text_parsing.py [--splits 5] [--sentences 1000] [--only defaults|throughput|startup]
    python benchmarks/text_parsing.py --only memory [--lines 1000000]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

for name in ("OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np
import pycrfsuite
import usaddress

from common import data_folder, read_columns
from rulefield import TextParser
from rulefield.data.documents import Document, TextSpan
from rulefield.datasets import load_cora, load_us50, make_addresses
from rulefield.encode.alignment import align
from rulefield.encode.formats import read_documents
from rulefield.encode.spans import spans as segments
from rulefield.encode.tokenizers import as_tokenizer
from rulefield.metrics import span_f1, token_accuracy

BINS = 10
CALIBRATED = ("cora", "us50")
SPANS = ("conll2002",)


class Split(NamedTuple):
    """Documents to learn from and to be tested on."""

    train: list[Document]
    test: list[Document]


# --- data -----------------------------------------------------------------------------------------


def document(tokens: list[str], labels: list[str]) -> Document:
    """Tokens with blanks between them as a text, segments as spans."""
    starts = np.cumsum([0, *(len(token) + 1 for token in tokens)])
    found = [
        TextSpan(int(starts[s.start]), int(starts[s.stop]) - 1, s.type)
        for s in segments(labels, "BIO")
        if s.type != "O"
    ]
    return Document(" ".join(tokens), tuple(found))


def documents(X: list[list[str]], y: list[list[str]]) -> list[Document]:
    """All sequences as texts."""
    return [document(tokens, labels) for tokens, labels in zip(X, y)]


def sentences(name: str) -> list[Document]:
    """CoNLL-2002, without parts of speech."""
    rows = read_columns(data_folder() / "conll2002_es" / name)
    return [document([row[0] for row in rows_], [row[2] for row in rows_]) for rows_ in rows]


def drawn(pool: list[Document], n: int, seed: int) -> Split:
    """Take ``n`` documents at random to learn from; the rest tests."""
    order = np.random.default_rng(seed).permutation(len(pool))
    return Split([pool[i] for i in order[:n]], [pool[i] for i in order[n:]])


def splits(n_splits: int, n_sentences: int) -> Iterator[tuple[str, list[Split]]]:
    """Name every set, with its splits."""
    seeds = range(n_splits)
    cora = documents(*load_cora())
    yield "cora", [drawn(cora, 300, seed) for seed in seeds]
    us50 = documents(*load_us50("train")) + documents(*load_us50("test"))
    yield "us50", [drawn(us50, 51, seed) for seed in seeds]
    companies = list(read_documents(str(data_folder() / "companies" / "company_labeled.xml")))
    yield "companies", [drawn(companies, round(0.8 * len(companies)), seed) for seed in seeds]
    made = [documents(*make_addresses(600, seed=10_000 + seed)) for seed in seeds]
    yield "addresses", [Split(docs[:200], docs[200:]) for docs in made]
    pool, test = sentences("esp.train.gz"), sentences("esp.testb")
    yield "conll2002", [Split(drawn(pool, n_sentences, seed).train, test) for seed in seeds]


# --- the peer -------------------------------------------------------------------------------------


def tutorial(words: list[str]) -> list[list[str]]:
    """Features of python-crfsuite's tutorial, without parts of speech."""
    made = []
    for i, word in enumerate(words):
        features = [
            "bias",
            f"word.lower={word.lower()}",
            f"word[-3:]={word[-3:]}",
            f"word[-2:]={word[-2:]}",
            f"word.isupper={word.isupper()}",
            f"word.istitle={word.istitle()}",
            f"word.isdigit={word.isdigit()}",
        ]
        for step, end in ((-1, "BOS"), (1, "EOS")):
            if 0 <= i + step < len(words):
                other = words[i + step]
                features += [
                    f"{step:+d}:word.lower={other.lower()}",
                    f"{step:+d}:word.istitle={other.istitle()}",
                    f"{step:+d}:word.isupper={other.isupper()}",
                ]
            else:
                features.append(end)
        made.append(features)
    return made


def crfsuite_labels(X: list[list[str]], y: list[list[str]], test: list[list[str]]) -> list[list[str]]:
    """Train python-crfsuite as its tutorial does, and label ``test``."""
    trainer = pycrfsuite.Trainer(verbose=False)
    for words, labels in zip(X, y):
        trainer.append(tutorial(words), labels)
    trainer.set_params({"c1": 0.1, "c2": 0.1, "max_iterations": 100, "feature.possible_transitions": True})
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.crfsuite")
        trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        return [tagger.tag(tutorial(words)) for words in test]


# --- defaults and calibration ---------------------------------------------------------------------


def tokens_and_labels(docs: list[Document]) -> tuple[list[list[str]], list[list[str]]]:
    """Cut the texts as the parser does; a token that a gold span cuts is split, for both contenders."""
    tokenizer = as_tokenizer("words")
    aligned = [align(doc, tokenizer, "BIO", "split") for doc in docs]
    return [[doc.text[a:b] for a, b in made.places] for doc, made in zip(docs, aligned)], [m.labels for m in aligned]


def points(name: str, gold: list[list[str]], found: list[list[str]]) -> float:
    """Hundred times span F1 or token accuracy."""
    return 100 * (span_f1(gold, found, scheme="BIO") if name in SPANS else token_accuracy(gold, found))


def calibration_error(chances: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error: gap between chance and share of right ones by bin, weighted by the bin's share."""
    bins = np.minimum((chances * BINS).astype(int), BINS - 1)
    gaps = [abs(chances[bins == b].sum() - right[bins == b].sum()) for b in range(BINS)]
    return float(sum(gaps) / len(chances))


def run_defaults(n_splits: int, n_sentences: int) -> dict[str, float]:
    """Compare on every set; print a line per set."""
    gains, errors = {}, {}
    for name, parts in splits(n_splits, n_sentences):
        ours, theirs, chances, right, took = [], [], [], [], [0.0, 0.0]
        for part in parts:
            train, test = tokens_and_labels(part.train), tokens_and_labels(part.test)
            begun = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # spans that cut tokens, counted by both
                parser = TextParser().fit(part.train)
            took[0] += time.process_time() - begun
            ours.append(points(name, test[1], [list(row) for row in parser.model_.predict(test[0])]))
            begun = time.process_time()
            theirs.append(points(name, test[1], crfsuite_labels(*train, test[0])))
            took[1] += time.process_time() - begun
            if name in CALIBRATED:
                parses = parser.parse_all([doc.text for doc in part.test], probabilities=False)
                chances += [parse.probability for parse in parses]
                right += [
                    {(s.start, s.end, s.label) for s in parse.spans} == {(s.start, s.end, s.label) for s in doc.spans}
                    for parse, doc in zip(parses, part.test)
                ]
        gains[name] = float(np.mean(ours) - np.mean(theirs))
        line = f"{name:10} rulefield {np.mean(ours):.2f}, python-crfsuite {np.mean(theirs):.2f}: {gains[name]:+.2f}"
        line += f" (CPU-s per split: fit {took[0] / len(parts):.1f}, fit and tag {took[1] / len(parts):.1f})"
        if chances:
            errors[name] = calibration_error(np.array(chances), np.array(right))
            line += f"; calibration error {errors[name]:.3f}, whole texts right {100 * np.mean(right):.1f} %"
        print(line, flush=True)
    return {
        "calibration_error": round(max(errors.values()), 4),
        "defaults_gain": round(float(np.mean(list(gains.values()))), 3),
        "defaults_worst": round(min(gains.values()), 3),
    }


# --- speed ----------------------------------------------------------------------------------------


def address_parser() -> TextParser:
    """Return a parser of generated addresses."""
    return TextParser().fit(documents(*make_addresses(400, seed=1)))


def usaddress_labels(text: str) -> list[tuple[str, str]]:
    """Do what ``usaddress.parse`` does: tokens, features, python-crfsuite."""
    tokens = usaddress.tokenize(text)
    return list(zip(tokens, usaddress.TAGGER.tag(usaddress.tokens2features(tokens)))) if tokens else []


def run_throughput(n: int = 4000, rounds: int = 3) -> dict[str, float]:
    """Texts per CPU second of both, best of alternating rounds, every round on texts of its own."""
    parser = address_parser()
    parser.predict([doc.text for doc in documents(*make_addresses(50, seed=2))])
    best = [np.inf, np.inf]
    for round_ in range(rounds):
        texts = [doc.text for doc in documents(*make_addresses(n, seed=100 + round_))]
        for which, parse in enumerate((parser.predict, lambda rows: [usaddress_labels(text) for text in rows])):
            begun = time.process_time()
            parse(texts)
            best[which] = min(best[which], time.process_time() - begun)
    print(f"addresses per CPU-s: rulefield {n / best[0]:,.0f}, usaddress {n / best[1]:,.0f}")
    return {"throughput_ratio": round(best[1] / best[0], 3)}


def seconds(command: list[str]) -> float:
    """Wall seconds of a command that must succeed."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def run_startup(rounds: int = 7) -> dict[str, float]:
    """Least wall seconds of both, alternating; the first round warms caches."""
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "m.rf")
        address_parser().save(model)
        commands = (
            [sys.executable, "-m", "rulefield", "parse", model, "59 ST JAMES PLACE NEW YORK NY 10038"],
            [sys.executable, "-c", "import numpy, numba"],
        )
        taken = [[seconds(command) for command in commands] for _ in range(rounds)][1:]
    ours, bare = np.min(taken, axis=0)
    print(f"start-up: rulefield parse {ours:.2f} s, import numpy, numba {bare:.2f} s")
    return {"startup_ratio": round(float(ours / bare), 3)}


def resident(process: subprocess.Popen) -> float:
    """Megabytes that a process has in memory."""
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(process.pid)], capture_output=True, text=True, check=True)
    return int(told.stdout) / 1024


def run_memory(n_lines: int, portion: int = 10_000) -> dict[str, float]:
    """Feed addresses a portion at a time, and look when all of it is answered."""
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "m.rf")
        address_parser().save(model)
        command = [sys.executable, "-m", "rulefield", "parse", model, "-"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        pool = [" ".join(tokens) for tokens in make_addresses(portion, seed=1000)[0]]
        seen = []
        for k in range(n_lines // portion):
            lines = [text.translate(digits) for text, digits in zip(pool, _digits(portion, seed=k))]
            feeder = threading.Thread(target=_feed, args=(process.stdin, lines))
            feeder.start()
            for _ in lines:
                process.stdout.readline()
            feeder.join()
            seen.append(resident(process))
            if k == 0 or (k + 1) % 10 == 0:
                print(f"{(k + 1) * portion:>9,} lines: {seen[-1]:.1f} MB", flush=True)
        process.stdin.close()
        process.wait()
    print(
        f"memory: {seen[0]:.1f} MB after the first {portion:,} lines, {seen[-1]:.1f} MB at the end, at most {max(seen):.1f}"
    )
    return {"stream_growth_mb": round(max(seen) - seen[0], 1)}


def _digits(n: int, seed: int) -> Iterator[dict[int, int]]:
    """Yield what each digit becomes in one text after the other: new numbers for the same streets."""
    for order in np.random.default_rng(seed).permuted(np.tile(np.arange(10), (n, 1)), axis=1).tolist():
        yield {ord("0") + i: ord("0") + j for i, j in enumerate(order)}


def _feed(pipe: IO[bytes], lines: list[str]) -> None:
    pipe.write("".join(line + "\n" for line in lines).encode())
    pipe.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=1000, help="to learn from on CoNLL-2002")
    parser.add_argument("--only", choices=["defaults", "throughput", "startup", "memory"])
    parser.add_argument("--lines", type=int, default=1_000_000, help="of the stream whose memory is looked at")
    options = parser.parse_args()
    record: dict[str, float] = {}
    if options.only == "memory":
        record |= run_memory(options.lines)
    else:
        data_folder()
    if options.only in (None, "startup"):
        record |= run_startup()
    if options.only in (None, "throughput"):
        record |= run_throughput()
    if options.only in (None, "defaults"):
        record |= run_defaults(options.splits, options.sentences)
    print(json.dumps(record))


if __name__ == "__main__":
    main()
