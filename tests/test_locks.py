"""A process may fork while other threads of it work: its children hang at no lock, and predict the same."""

import importlib
import importlib.util
import os
import sys
import threading
import time

import pytest

import rulefield as rf
from rulefield import rules as r

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")


def ended(child, seconds=30.0):
    """Return the exit code of a child, or None if it hangs."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_children_that_are_forked_while_threads_work():
    X, y = rf.datasets.make_citations(60, seed=0)
    model = rf.ChainCRF(scheme="BIO", max_iter=5, rules=[r.segments("title") <= 1]).fit(X[:30], y[:30])
    expected = list(model.predict(X))
    stop = threading.Event()

    def work():
        while not stop.is_set():
            model.predict(X)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    codes = []
    try:
        for _ in range(6):
            time.sleep(0.05)
            child = os.fork()
            if child == 0:
                same = False
                try:
                    same = list(model.predict(X)) == expected
                finally:
                    os._exit(0 if same else 1)
            codes.append(ended(child))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert codes == [0] * 6


class SlowLoader:
    """Makes a module that takes a second to import."""

    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name == "rulefield.slow" else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        time.sleep(1.0)
        module.value = 7


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_children_that_are_forked_while_a_thread_imports(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [SlowLoader(), *sys.meta_path])
    thread = threading.Thread(target=importlib.import_module, args=("rulefield.slow",))
    thread.start()
    time.sleep(0.2)
    child = os.fork()
    if child == 0:
        value = 0
        try:
            value = importlib.import_module("rulefield.slow").value
        finally:
            os._exit(value)
    thread.join()
    monkeypatch.delitem(sys.modules, "rulefield.slow")
    assert ended(child, 10.0) == 7
