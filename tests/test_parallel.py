"""One meaning of n_jobs, and an executor whose answers do not depend on it."""

import ast
import os
import threading
import time
from pathlib import Path

import pytest

import rulefield
from rulefield.exceptions import InputError
from rulefield.parallel import Threads, in_threads, n_threads

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def test_negative_n_jobs_counts_down_from_all_cores():
    assert n_threads(None) == 1
    assert n_threads(3) == 3
    assert n_threads(-1) == CORES
    assert n_threads(-2) == max(1, CORES - 1)
    assert n_threads(-1000) == 1
    assert n_threads(10**30) <= 100 * CORES  # a file may ask for more than a system has


@pytest.mark.parametrize("n_jobs", [0, 1.5, True, "2"])
def test_other_values_are_refused(n_jobs):
    with pytest.raises(InputError, match="n_jobs"):
        n_threads(n_jobs)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 8])
def test_answers_come_in_the_order_of_items(n_jobs):
    def slow_at_first(i):
        time.sleep(0.002 * (5 - i))
        return i * i

    assert in_threads(slow_at_first, iter(range(5)), n_jobs) == [0, 1, 4, 9, 16]


def test_nothing_is_at_work_after_an_error():
    begun, ended = [], []

    def work(i):
        if i == 0:
            raise ValueError("part 0")
        begun.append(i)
        time.sleep(0.01)
        ended.append(i)

    with Threads(3) as threads:
        with pytest.raises(ValueError, match="part 0"):
            threads.map(work, range(50))
        assert sorted(begun) == sorted(ended)
        assert len(begun) < 50


def test_threads_end_with_the_call():
    before = threading.active_count()
    in_threads(lambda i: i, range(10), 4)
    assert threading.active_count() == before


def test_there_is_no_other_pool_in_the_library_but_that_of_the_server():
    root = Path(rulefield.__file__).parent
    users = []
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                ("concurrent", "joblib", "multip")
            ):
                users.append(str(path.relative_to(root)))
    assert sorted(users) == ["cli/pages/work_threads.py", "parallel.py"]  # questions of clients are no parts of data
