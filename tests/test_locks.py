"""A process may fork while other threads of it work: its children hang at no lock, and predict the same."""

import os
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
