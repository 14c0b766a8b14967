"""Compressed files: a bomb is refused before a reader makes anything of it; others are read as they are."""

import gzip

import pytest

from rulefield.data.source import ALWAYS_UNPACKED, Source
from rulefield.exceptions import InputError


def test_a_bomb_is_refused_before_its_first_line(tmp_path):
    path = tmp_path / "a.conll.gz"
    path.write_bytes(gzip.compress(b"a O\n" * (ALWAYS_UNPACKED // 4 + 1), 9))
    lines = Source(str(path)).lines()
    with pytest.raises(InputError, match="unpacks to more than"):
        next(lines)


def test_files_of_several_members_and_broken_ones(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert [line for _, line in Source(str(path)).lines()] == ["one", "two"]
    assert Source(str(path)).text() == "one\ntwo\n"
    path.write_bytes(gzip.compress(b"one\n" * 1000)[:-9])
    with pytest.raises(InputError, match="not a whole gzip file"):
        list(Source(str(path)).lines())
