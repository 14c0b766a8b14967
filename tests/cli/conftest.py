"""What tests of commands share."""

import sys

import pytest

from rulefield.cli import main as cli


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line; gives (exit code, standard output, standard error)."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["rulefield", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        done = capsys.readouterr()
        return end.value.code or 0, done.out, done.err

    return call
