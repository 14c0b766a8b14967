"""Files appear when they are whole; what is no regular file is written into or refused, never replaced."""

import os
import signal
import stat
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from rulefield import outputs
from rulefield.exceptions import InputError
from rulefield.outputs import TEMPORARY, check_output, whole_file, write_whole


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "a"
    with whole_file(path, text=True) as file:
        file.write("ü")
        assert names(tmp_path)[0].endswith(TEMPORARY)
        assert not path.exists()
    assert path.read_bytes() == "ü".encode()
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_keeps_the_old_file_and_leaves_nothing(tmp_path, error):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def write():
        with whole_file(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_links_are_followed(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    write_whole(tmp_path / "link", b"1")  # it points nowhere yet
    write_whole(tmp_path / "link", b"2")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == b"2"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises((InputError, OSError)):
        write_whole(tmp_path / "loop", b"3")
    assert (tmp_path / "loop").is_symlink()


def test_mode_is_kept_and_new_files_follow_the_umask(tmp_path):
    write_whole(tmp_path / "new", b"")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o666 & ~mask
    (tmp_path / "new").chmod(0o640)
    write_whole(tmp_path / "new", b"x")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_directory_and_a_missing_folder_are_refused_before_work(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "f").touch()
    for path, why in [("d", "directory"), ("no/m", "does not exist"), ("f/m", "does not exist")]:
        with pytest.raises(InputError, match=why):
            check_output(tmp_path / path)
    assert (tmp_path / "d").is_dir()


def test_a_pipe_is_written_into(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_output(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"through")
    reader.join()
    assert read == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["pipe"]


@pytest.mark.parametrize(
    ("mode", "stream"), [(stat.S_IFCHR, True), (stat.S_IFIFO, True), (stat.S_IFREG, False), (stat.S_IFBLK, None)]
)
def test_what_is_no_regular_file_is_never_replaced(monkeypatch, mode, stream):
    monkeypatch.setattr(outputs.os, "stat", lambda _: SimpleNamespace(st_mode=mode | 0o666))
    if stream is None:
        with pytest.raises(InputError, match="block device"):
            outputs._is_stream("x")
    else:
        assert outputs._is_stream("x") is stream


def test_read_only_targets_are_refused(tmp_path, monkeypatch):
    (tmp_path / "a").touch()
    for forbidden, why in [(tmp_path, "not writable"), (tmp_path / "a", "read-only")]:
        monkeypatch.setattr(outputs.os, "access", lambda path, _, f=forbidden: path != f)  # root may do anything
        with pytest.raises(InputError, match=why):
            check_output(tmp_path / "a")


def test_leftovers_of_killed_processes_are_removed_and_no_others(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()

    def temporary(name, process):
        return f".{outputs._digest(name)}-{outputs._machine()}-{process}-0123abcd{TEMPORARY}"

    left = temporary("a", child.pid)
    others = [temporary("b", child.pid), temporary("a", os.getpid()), ".a.txt"]
    for name in [left, *others]:
        (tmp_path / name).touch()
    write_whole(tmp_path / "a", b"")
    assert names(tmp_path) == sorted(["a", *others])


def test_a_terminated_command_leaves_nothing(tmp_path):
    code = """
import sys, time
from rulefield.cli import main
from rulefield.outputs import whole_file
def work():
    with whole_file(sys.argv[1]) as file:
        print("go", flush=True)
        time.sleep(30)
main.app = work
main.main()
"""
    child = subprocess.Popen([sys.executable, "-c", code, tmp_path / "a"], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"go\n"
    child.send_signal(signal.SIGTERM)
    assert child.wait(20) == 128 + signal.SIGTERM
    child.stdout.close()
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("path", "why"), [("", "no name of a file"), ("a\0b", "no name of a file"), ("x" * 256, "too long")]
)
def test_what_is_no_name_of_a_file_is_one_sentence(tmp_path, monkeypatch, path, why):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=why):
        write_whole(path, b"")
    assert names(tmp_path) == []


def test_every_legal_name_can_be_written_to(tmp_path):
    for name in ("x" * 255, "ü" * 127, "\udcff"):
        write_whole(tmp_path / name, b"1")
        assert names(tmp_path) == [name]
        (tmp_path / name).unlink()


def test_the_file_that_another_machine_is_writing_is_kept_until_it_is_old(tmp_path, monkeypatch):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(outputs, "_machine", lambda: "0123abcd")
        elsewhere.setattr(outputs.os, "getpid", lambda: child.pid)
        with whole_file(tmp_path / "a") as file:
            file.write(b"there")
            elsewhere.undo()
            write_whole(tmp_path / "a", b"here")
    assert (tmp_path / "a").read_bytes() == b"there"  # written last
    left = tmp_path / f".{outputs._digest('a')}-0123abcd-{child.pid}-0123abcd{TEMPORARY}"
    left.touch()
    write_whole(tmp_path / "a", b"")
    assert left.exists()
    os.utime(left, (1, 1))
    write_whole(tmp_path / "a", b"")
    assert names(tmp_path) == ["a"]
