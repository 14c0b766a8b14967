"""What users call, and what it costs: raw texts, one text, start-up, memory, beside fastaddress and usaddress.

Texts per CPU second, one thread, on 20,000 addresses of counties (``addresses_raw``); the parser is fitted on US50 and
generated addresses. Each figure is the best of alternating rounds; every round has a parser that has seen none of the texts.
All spans, fields and probabilities are read.

    RULEFIELD_DATA=... python benchmarks/paths.py [--only texts|startup|memory]
"""

import csv
import gzip
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import fastaddress
import usaddress

from chain_vs_crfsuite import compare_conll
from common import data_folder
from rulefield import RuledCRF, TextParser, load
from rulefield import rules as r
from rulefield.datasets import load_us50, make_addresses
from text_parsing import documents

RULES = [
    r.segments("zip") <= 1,
    r.segments("state") <= 1,
    (r.segments("city") <= 1).soft(2.0),
    (r.segments("number") <= 1).soft(2.0),
    r.before("state", "zip").soft(2.0),
]
"""As people write them for addresses: two hard counts, two soft ones, an order."""
FOUND_TEXTS = 2000
"""Texts that are parsed under rules that were found."""


def raw_addresses() -> list[str]:
    """Return addresses as counties wrote them."""
    with gzip.open(data_folder() / "addresses_raw" / "addresses.csv.gz", "rt", encoding="utf-8") as file:
        return [row["address"] for row in csv.DictReader(file)]


def labeled() -> list[Any]:
    """Return US50 and generated addresses with spans."""
    sets = load_us50("train"), load_us50("test"), make_addresses(800, seed=1)
    return [doc for pair in sets for doc in documents(*pair)]


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a call."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def read_all(parses: list[Any]) -> None:
    """Read everything that parses say."""
    for parse in parses:
        _ = parse.fields, parse.probability
        for span in parse.spans:
            _ = span.text, span.label, span.probability


def throughput(model: bytes, found: bytes, texts: list[str], rounds: int) -> dict[str, float]:
    """Return texts per CPU second of every call."""
    few = texts[:: max(1, len(texts) // FOUND_TEXTS)][:FOUND_TEXTS]
    parsers: list[TextParser] = []

    def fresh(file: bytes = model) -> TextParser:
        parsers[:] = [load(file)]
        return parsers[0]

    calls: dict[str, tuple[list[str], Callable[[], object], Callable[[list[str]], object]]] = {
        "fastaddress": (texts, list, lambda rows: [fastaddress.parse(text) for text in rows]),
        "fastaddress_confidence": (
            texts,
            list,
            lambda rows: [fastaddress.tag_native_with_confidence(text) for text in rows],
        ),
        "usaddress": (few, list, lambda rows: [usaddress.parse(text) for text in rows]),
        "predict": (texts, fresh, lambda rows: parsers[0].predict(rows)),
        "parse": (texts, fresh, lambda rows: read_all(parsers[0].parse_all(rows))),
        "parse_rules": (texts, fresh, lambda rows: read_all(parsers[0].parse_all(rows, rules=RULES))),
        "parse_found": (few, lambda: fresh(found), lambda rows: read_all(parsers[0].parse_all(rows))),
    }
    speed = dict.fromkeys(calls, 0.0)
    for _, prepare, call in calls.values():  # loads compiled code
        prepare()
        call(texts[:100])
    for _ in range(rounds):
        for name, (rows, prepare, call) in calls.items():
            prepare()
            speed[name] = max(speed[name], len(rows) / cpu_seconds(partial(call, rows)))
    for name, value in speed.items():
        print(f"{name:24} {value:10,.0f} texts per CPU-s", flush=True)
    return speed


def one_text(parser: TextParser, texts: list[str], rules: Any, rounds: int = 5) -> float:
    """Return the CPU milliseconds of one text, in a loop."""
    read_all([parser.parse(text, rules=rules) for text in texts])
    best = min(
        cpu_seconds(lambda: read_all([parser.parse(text, rules=rules) for text in texts])) for _ in range(rounds)
    )
    return 1000 * best / len(texts)


def run_texts(rounds: int = 3) -> dict[str, float]:
    """Compare the throughput from raw strings."""
    texts, gold = raw_addresses(), labeled()
    parser = TextParser().fit(gold)
    ruled = TextParser(model=RuledCRF(random_state=0)).fit(gold[:300])
    print(f"{len(parser.model_.classes_)} labels; {len(ruled.model_.rules_)} rules were found")
    speed = throughput(parser.to_bytes(), ruled.to_bytes(), texts, rounds)
    confidence = speed["fastaddress_confidence"]
    return {
        "predict_ratio": speed["predict"] / speed["fastaddress"],
        "parse_ratio": speed["parse"] / confidence,
        "parse_rules_ratio": speed["parse_rules"] / confidence,
        "parse_found_ratio": speed["parse_found"] / confidence,
        "usaddress_ratio": speed["parse"] / speed["usaddress"],
        "one_text_ms": one_text(parser, texts[:300], None),
        "one_text_rules_ms": one_text(parser, texts[:300], RULES),
    }


def process_seconds(command: list[str]) -> float:
    """Return the CPU seconds of a command that must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_startup(rounds: int = 7) -> dict[str, float]:
    """Compare one parsed line with the import of numpy and numba."""
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "m.rf")
        TextParser().fit(labeled()).save(model)
        commands = (
            [sys.executable, "-m", "rulefield", "parse", model, "59 ST JAMES PLACE NEW YORK NY 10038"],
            [sys.executable, "-c", "import numpy, numba"],
        )
        taken = [[process_seconds(command) for command in commands] for _ in range(rounds)][1:]
    ours, bare = (min(column) for column in zip(*taken))
    print(f"start-up: rulefield parse {ours:.2f} CPU-s, import numpy, numba {bare:.2f} CPU-s")
    return {"startup": ours / bare}


def run_memory() -> dict[str, float]:
    """Compare the peak memory of training with CRFsuite's."""
    return {"memory_ratio": compare_conll()["memory_ratio"]}
