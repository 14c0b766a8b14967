"""Try hostile input until the time is over: model files, bytes, texts, and certificates against enumeration.

One child process per core tries many cases; a case is told by its family, seed and number, so that

    python benchmarks/fuzz.py --minutes 30               # everything
    python benchmarks/fuzz.py --cases 300                # so many of each family
    python benchmarks/fuzz.py --cases 300 --here         # in this process, which a crash ends: no watch, but one start
    python benchmarks/fuzz.py --try "models 0 1234"      # one case again, in this process

are reproducible. A finding is a crash, an error that is none of the library's own, a false certificate, or no answer in
ten seconds. The last line is JSON; the exit code is 1 where anything was found.
"""

import argparse
import json
import os
import selectors
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT = 10.0
SHARES = {
    "models": 9, "bytes": 1, "rules": 3, "expectations": 1, "columns": 2, "json lines": 2,
    "chain certificates": 2, "graph certificates": 2, "crfsuite models": 1,
    "formats": 3, "pages": 2, "graph files": 1, "proof files": 2,
}  # fmt: skip
"""Parts of the time that each family gets."""
TEXTS = ("rules", "expectations", "columns", "json lines", "formats", "pages",
         "graph files")  # fmt: skip
SHOWN = 20
"""Findings that are printed; all are counted."""
START_UP = 240.0
"""Seconds for a child to compile, and to fit the models that it then alters."""


def families():
    """Return the functions that try one case, by family."""
    sys.path.insert(0, str(HERE))
    from fuzzing import certificates, files, models, proofs, texts

    return {
        "models": models.altered_model,
        "bytes": models.altered_bytes,
        **texts.FAMILIES,
        **files.FAMILIES,
        "chain certificates": certificates.chain_certificate,
        "graph certificates": certificates.graph_certificate,
        "proof files": proofs.altered_proof,
    }


def try_one(family, seed, number, function):
    """Try one case; returns what became of it and, for a finding, the text."""
    import numpy as np

    rng = np.random.default_rng([seed, list(SHARES).index(family), number])
    try:
        return function(rng)[0], None
    except Exception as error:
        lines = traceback.format_exception(error)
        return "finding", "".join(lines[-12:])[-2500:]


def work(family, seed, first, step):
    """Child: try cases until killed, telling each before it begins."""
    import logging

    warnings.simplefilter("ignore")
    logging.disable()
    function = families()[family]
    if family == "models":
        from fuzzing.models import warm_up

        warm_up()
    for number in range(5):  # compiles; the parent is patient before the first line
        try_one(family, -1 - number + 2**31, number, function)
    number = first
    while True:
        print(json.dumps(["begin", number]), flush=True)
        outcome, text = try_one(family, seed, number, function)
        print(json.dumps(["end", number, outcome, text]), flush=True)
        number += step


def run_here(names, cases, seed):
    """Try cases of families one after the other in this process."""
    import faulthandler
    import logging

    faulthandler.enable()
    warnings.simplefilter("ignore")
    logging.disable()
    report, functions = Report(), families()
    for name in names:
        for number in range(cases):
            outcome, text = try_one(name, seed, number, functions[name])
            report.count(name, outcome)
            if text:
                report.find(name, seed, number, text)
    report.show()
    return report


class Child:
    """A process that tries cases of one family; replaced when it crashes or hangs."""

    def __init__(self, family, seed, first, step):
        self.family, self.seed, self.next, self.step = family, seed, first, step
        self.process = None

    def run(self, seconds, cases, report):
        """Try cases for so many seconds after the first begins, at most so many."""
        end, done = float("inf"), 0
        self._start()
        heard, patience, current = self._clock(), START_UP, self.next
        while time.monotonic() < end and done < cases:
            line = self._line(min(0.5, LIMIT))
            if line is None:
                if self.process.poll() is not None:
                    report.find(self.family, self.seed, current, f"the process ended with {self.process.returncode}")
                elif self._clock() - heard > patience:
                    report.find(self.family, self.seed, current, f"no answer in {patience:g} s")
                else:
                    continue
                self.stop()
                self.next = current + self.step
                self._start()
                heard, patience, current = self._clock(), START_UP, self.next
                continue
            heard, patience, current = self._clock(), LIMIT, line[1]
            end = min(end, time.monotonic() + seconds)
            if line[0] == "end":
                done += 1
                self.next = line[1] + self.step
                report.count(self.family, line[2])
                if line[3]:
                    report.find(self.family, self.seed, line[1], line[3])
        self.stop()

    def _start(self):
        command = [
            sys.executable,
            __file__,
            "--work",
            self.family,
            "--seed",
            str(self.seed),
            "--first",
            str(self.next),
        ]
        settings = {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [*command, "--step", str(self.step)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=os.environ | settings,
        )  # fmt: skip
        os.set_blocking(self.process.stdout.fileno(), False)
        self.buffer = b""
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)

    def _clock(self):
        """CPU seconds of the child where the system tells them (a busy machine is no hang), else seconds."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError):
            return time.monotonic()

    def _line(self, seconds):
        if b"\n" not in self.buffer:
            if self.selector.select(seconds):
                self.buffer += self.process.stdout.read() or b""
            if b"\n" not in self.buffer:
                if self.process.poll() is not None:
                    time.sleep(0.05)
                return None
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.selector.close()
        self.process.stdout.close()


class Report:
    """What was tried and what was found."""

    def __init__(self):
        self.outcomes = {family: Counter() for family in SHARES}
        self.findings = []

    def count(self, family, outcome):
        self.outcomes[family][outcome] += 1

    def find(self, family, seed, number, text):
        self.findings.append((family, number))
        if len(self.findings) > SHOWN:
            return
        print(f'FOUND --try "{family} {seed} {number}"\n{text}', flush=True)

    def show(self):
        for family, counter in self.outcomes.items():
            if counter:
                parts = ", ".join(f"{outcome} {n}" for outcome, n in sorted(counter.items()))
                print(f"{family:20s} {sum(counter.values()):7d}  ({parts})")
        tried = {family: sum(counter.values()) for family, counter in self.outcomes.items()}
        texts = sum(tried[family] for family in TEXTS)
        print(
            json.dumps(
                {"tried": sum(tried.values()), "models": tried["models"], "texts": texts, "found": len(self.findings)}
            )
        )


def run_all(names, seconds, cases, seed, jobs):
    """Run families one after the other, ``jobs`` children at a time."""
    from concurrent.futures import ThreadPoolExecutor

    report = Report()
    total = sum(SHARES[name] for name in names)
    for name in names:
        share = float("inf") if seconds is None else seconds * SHARES[name] / total
        children = [Child(name, seed, first, jobs) for first in range(jobs)]
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda child, limit=share: child.run(limit, cases / jobs, report), children))
    report.show()
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--cases", type=int, help="so many of each family, whatever the time")
    parser.add_argument("--only", help="families, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--here", action="store_true", help="in this process; needs --cases")
    parser.add_argument("--try", dest="again", help='"FAMILY SEED NUMBER": one case in this process')
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--step", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here and not options.cases:
        parser.error("--here needs --cases")
    if options.work:
        work(options.work, options.seed, options.first, options.step)
    elif options.again:
        family, seed, number = options.again.rsplit(" ", 2)
        warnings.simplefilter("ignore")
        print(*try_one(family, int(seed), int(number), families()[family]), sep="\n")
    else:
        names = [name.strip() for name in options.only.split(",")] if options.only else list(SHARES)
        if options.here:
            report = run_here(names, options.cases, options.seed)
        else:
            seconds = None if options.cases else 60.0 * options.minutes
            report = run_all(names, seconds, options.cases or float("inf"), options.seed, options.jobs)
        sys.exit(bool(report.findings))


if __name__ == "__main__":
    main()
