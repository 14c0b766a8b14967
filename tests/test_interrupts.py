"""Ctrl-C: kept for a safe moment while learners work, never a SystemError, and always a model or a KeyboardInterrupt."""

import os
import signal
import subprocess
import sys
import threading
import warnings
from time import sleep

import numpy as np
import pytest

from rulefield import ChainCRF, GraphCRF, SegmentCRF
from rulefield.datasets import make_addresses
from rulefield.encode.graph_builders import chain
from rulefield.exceptions import InterruptedFitWarning
from rulefield.interrupts import check, deferred, interruptible, watched
from rulefield.learning.fit_log import Pass, run_passes
from rulefield.parallel import Threads


@pytest.fixture(autouse=True)
def python_handler():
    """Give tests Python's own handler: a process started in the background ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_interrupt_waits_and_the_second_does_not():
    steps = []

    def interrupted(times):
        with deferred():
            for k in range(times):
                ctrl_c()
                steps.append((times, k))
            check()

    for times in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            interrupted(times)
    assert steps == [(1, 0), (2, 0)]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_that_nobody_asked_for_is_raised_in_the_end():
    with pytest.raises(KeyboardInterrupt), deferred():
        ctrl_c()


def test_a_system_error_after_an_interrupt_is_an_interrupt():
    @interruptible
    def torn():
        try:
            ctrl_c()
        except KeyboardInterrupt:
            raise SystemError("returned a result with an exception set") from None

    with pytest.raises(KeyboardInterrupt):
        torn()
    with pytest.raises(SystemError), watched():
        raise SystemError("of another cause")


def test_other_threads_and_other_handlers_are_left_alone():
    seen = []

    def work():
        with deferred():
            check()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with deferred():
            ctrl_c()
            check()
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen[-1] == signal.SIGINT


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_executor_asks_between_parts(n_jobs):
    done = []

    def work(i):
        if i == 3:
            ctrl_c()
        sleep(0.001)  # on a busy machine the others would be done before anyone asks
        done.append(i)

    with pytest.raises(KeyboardInterrupt), deferred(), Threads(n_jobs) as threads:
        threads.map(work, range(1000))
    assert len(done) < 1000


def test_the_compiler_is_not_torn_while_it_is_imported():
    """In a new process, Ctrl-C in the middle of numba's own imports: once no kernel of that process could be called again."""
    code = (
        "import os, signal, sys, warnings\n"
        "from rulefield import ChainCRF\n"
        "warnings.simplefilter('ignore')\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Tearing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'numba.np.arrayobj':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Tearing())\n"
        "fit = lambda: ChainCRF(max_iter=1).fit([['a', 'b']], [['x', 'y']])\n"
        "try:\n"
        "    fit()\n"
        "    sys.exit('not interrupted')\n"
        "except KeyboardInterrupt:\n"
        "    pass\n"
        "assert fit().predict([['a', 'b']])[0] == ['x', 'y']\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


class Counter:
    """Learns by counting; Ctrl-C comes in the middle of the third pass."""

    def __init__(self, when):
        self.theta, self.when, self.n = np.zeros(1), when, 0

    def learn(self):
        self.n += 1
        if self.n == self.when:
            ctrl_c()
            check()
        self.theta = np.full(1, float(self.n))
        return Pass(1.0 / self.n)


def test_passes_keep_the_last_whole_one():
    result = run_passes(Counter(3), 10, 0.0)
    assert result.interrupted
    assert result.theta[0] == 2.0
    assert [record.objective for record in result.log] == [1.0, 0.5]
    with pytest.raises(KeyboardInterrupt):
        run_passes(Counter(1), 10, 0.0)


X, Y = make_addresses(80, seed=0)
GRAPHS = [chain(np.random.default_rng(i).normal(size=(8, 3))) for i in range(40)]
ON_GRAPHS = [(g.nodes["token"][:, 0] > 0).astype(int) for g in GRAPHS]
FITS = {
    "likelihood": lambda: ChainCRF(tol=0.0).fit(X, Y),
    "l1": lambda: ChainCRF(l1=0.1, tol=0.0).fit(X, Y),
    "segments": lambda: SegmentCRF(scheme="BIO", tol=0.0).fit(X, Y),
    "graph": lambda: GraphCRF(l2=0.01, tol=0.0).fit(GRAPHS, ON_GRAPHS),
    "graph ssvm": lambda: GraphCRF(algorithm="ssvm", l2=0.01, tol=0.0).fit(GRAPHS, ON_GRAPHS),
}


def test_an_interrupt_while_penalties_are_chosen_ends_the_choice_and_keeps_a_model(monkeypatch):
    from rulefield.learning.chain import penalties

    trials, fit = [], penalties.fit_likelihood

    def interrupted_in_the_second(*args, **options):
        trials.append(options["l1"])
        if len(trials) == 2:
            interrupt_at_first_evaluation(args[0])
        return fit(*args, **options)

    def interrupt_at_first_evaluation(likelihood):
        def evaluate(theta):
            del likelihood.value_and_gradient
            ctrl_c()
            return likelihood.value_and_gradient(theta)

        likelihood.value_and_gradient = evaluate

    monkeypatch.setattr(penalties, "fit_likelihood", interrupted_in_the_second)
    with pytest.warns(InterruptedFitWarning, match="l1 0 and l2 1. Ctrl-C again ends it"):
        crf = ChainCRF(l1="auto", l2="auto").fit(X, Y)
    assert len(trials) == 2
    assert (crf.l1_, crf.l2_, crf.converged_) == (0.0, 1.0, True)


@pytest.mark.parametrize("name", FITS)
def test_an_interrupted_fit_leaves_a_model_or_raises(name):
    for after in (0.01, 0.05, 0.15):
        timer = threading.Timer(after, ctrl_c)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            timer.start()
            try:
                model = FITS[name]()
            except KeyboardInterrupt:
                continue
            finally:
                timer.cancel()
                timer.join()
        model.predict((GRAPHS if name.startswith("graph") else X)[:2])
        assert sum(issubclass(w.category, InterruptedFitWarning) for w in told) <= 1
