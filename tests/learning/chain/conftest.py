"""Small problems with the layout of large ones: a feature that occurs twice occurs often."""

import pytest


@pytest.fixture(autouse=True)
def _rows_in_small_problems(monkeypatch):
    monkeypatch.setattr("rulefield.learning.chain.packing.OFTEN", 2)
