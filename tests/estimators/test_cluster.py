"""Learners on a cluster of processes: the same bits for any number of workers, and after one was killed."""

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import rulefield as rf
from rulefield import ChainCRF
from rulefield.datasets import make_addresses
from rulefield.estimators.fitting import ProgressLine
from rulefield.exceptions import ClusterError, InputError, InterruptedFitWarning
from rulefield.parallel import Workers

distributed = pytest.importorskip("distributed")
X, Y = make_addresses(80, seed=5, noise=0.3)


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture
def own_client():
    """Workers that may be killed: a nanny does not always bring one back, and other tests need two."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return rf.write_corpus(zip(X, Y), tmp_path_factory.mktemp("corpus") / "c", part_tokens=100)


@pytest.fixture(scope="module")
def here(corpus):
    return {kind: fitted(corpus, kind).theta_ for kind in OPTIONS}


OPTIONS = {
    "l2": {"max_iter": 12},
    "l1": {"l1": 0.3, "max_iter": 8},
    "steps first": {"max_iter": 2},
}


def fitted(corpus, kind, client=None):
    """A chain; stochastic steps come first on data of any size where the kind says so."""
    with pytest.MonkeyPatch.context() as patch:
        if kind == "steps first":
            patch.setattr("rulefield.learning.chain.likelihood.LEAST_SCORES", 0)
        return ChainCRF(**OPTIONS[kind]).fit(corpus, client=client)


@pytest.mark.parametrize("kind", OPTIONS)
def test_workers_give_the_bits_that_threads_give(client, corpus, here, kind):
    crf = fitted(corpus, kind, client)
    assert_array_equal(crf.theta_, here[kind])


@pytest.mark.parametrize("n", [1, 3])
def test_one_worker_and_three_give_the_same_bits(corpus, here, n):
    with (
        distributed.LocalCluster(n, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert_array_equal(ChainCRF(max_iter=12).fit(corpus, client=client).theta_, here["l2"])


def test_a_killed_worker_changes_nothing(own_client, corpus, here):
    victim = next(iter(own_client.run(os.getpid).values()))
    killed = []

    def kill_after(record, theta):
        if record.iteration == 3 and not killed:
            killed.append(victim)
            threading.Timer(0.02, os.kill, (victim, signal.SIGKILL)).start()

    crf = ChainCRF(max_iter=12)
    with pytest.MonkeyPatch.context() as patch:
        watch = ProgressLine.__call__

        def call(self, record, theta):
            kill_after(record, theta)
            return watch(self, record, theta)

        patch.setattr(ProgressLine, "__call__", call)
        crf.fit(corpus, client=own_client)
    assert killed
    assert_array_equal(crf.theta_, here["l2"])


def test_workers_that_were_started_elsewhere_find_a_relative_folder_or_say_that_they_do_not(
    client, corpus, here, tmp_path, monkeypatch
):
    monkeypatch.chdir(corpus.folder.parent)
    nearby = rf.open_corpus(corpus.folder.name)
    assert_array_equal(fitted(nearby, "steps first", client).theta_, here["steps first"])
    monkeypatch.setattr(type(nearby), "place", str(tmp_path / "unseen"))
    with pytest.raises(InputError, match="a worker does not see the corpus's folder .*unseen"):
        ChainCRF().fit(nearby, client=client)


def test_a_missing_part_is_named_at_once(client, corpus, tmp_path):
    own = rf.write_corpus(zip(X, Y), tmp_path / "c", part_tokens=100)
    (own.folder / own.parts[2]["file"]).unlink()
    begun = time.monotonic()
    with pytest.raises(InputError, match=own.parts[2]["file"]):
        ChainCRF().fit(own, client=client)
    assert time.monotonic() - begun < 20


def test_the_best_model_is_kept_when_the_scheduler_is_gone(corpus):
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, timeout="3s") as client,
    ):
        client.wait_for_workers(1, timeout=60)
        with pytest.MonkeyPatch.context() as patch:
            watch = ProgressLine.__call__

            def call(self, record, theta):
                if record.iteration == 3:
                    threading.Thread(target=cluster.close).start()
                    time.sleep(1.0)
                return watch(self, record, theta)

            patch.setattr(ProgressLine, "__call__", call)
            crf = ChainCRF(max_iter=50)
            with pytest.warns(InterruptedFitWarning, match="cluster"):
                crf.fit(corpus, client=client)
        with pytest.raises(ClusterError, match="the cluster"):
            ChainCRF(max_iter=2).fit(corpus, client=client)
    assert 3 <= crf.n_iter_ < 50
    assert not crf.converged_
    assert crf.score(X, Y) > 0.2


def test_no_worker_for_long_is_told(monkeypatch):
    monkeypatch.setattr("rulefield.parallel.LONGEST_WITHOUT_WORKERS", 1.0)
    monkeypatch.setattr("rulefield.parallel.PATIENCE", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        pytest.raises(ClusterError, match="no worker for 1 s"),
    ):
        list(Workers(client).stream(abs, [1]))


def test_partitions_and_grid_search_run_on_the_workers(client):
    import dask.bag
    import joblib
    from sklearn.model_selection import GridSearchCV

    crf = ChainCRF(max_iter=5).fit(X, Y)
    bag = dask.bag.from_sequence(X, npartitions=3)
    assert bag.map_partitions(lambda rows: list(crf.predict(list(rows)))).compute() == crf.predict(X).tolist()
    search = GridSearchCV(ChainCRF(max_iter=2), {"l2": [0.5, 2.0]}, cv=2, refit=False)
    plain = search.fit(X, Y).cv_results_["mean_test_score"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with joblib.parallel_backend("dask", client=client):
            there = search.fit(X, Y).cv_results_["mean_test_score"]
    np.testing.assert_allclose(there, plain)
