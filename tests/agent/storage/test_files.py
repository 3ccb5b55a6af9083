"""Files are written as a whole or not at all, and errors name the file that was asked for."""

import errno
import os
from pathlib import Path

import pytest

from agent.storage.files import symlink, write_atomic


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "out"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two" and list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_is_left_alone(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(OSError, match=f"no regular file: '{path}'"):
            write_atomic(path, b"content")
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_errors_name_the_file_that_was_asked_for(tmp_path, monkeypatch):
    missing = tmp_path / "missing" / "out"
    with pytest.raises(OSError, match=f"No such file or directory: '{missing}'"):
        write_atomic(missing, b"content")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kept = tmp_path / "out"
    write_atomic(kept, b"before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{kept}'"):
        write_atomic(kept, b"content")
    assert kept.read_bytes() == b"before" and list(tmp_path.iterdir()) == [kept]


def test_symlink_moves_and_never_replaces_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("run1", "run2"):
        (tmp_path / name).mkdir()
    assert symlink("run1", "latest") and symlink("run2", "latest")
    assert os.readlink("latest") == "run2"  # relative: the directory can be moved
    elsewhere = tmp_path / "run1" / "link"
    assert symlink("run2", elsewhere)
    assert elsewhere.resolve() == tmp_path / "run2"
    Path("logs.tsv").write_text("mine")
    assert not symlink("run1", "logs.tsv")
    assert Path("logs.tsv").read_text() == "mine"
    assert not symlink("run1", tmp_path / "missing" / "link")
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EPERM])
def test_a_file_system_that_cannot_flush_a_directory_is_tolerated(tmp_path, monkeypatch, number):
    flush = os.fsync

    def no_directories(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(number, os.strerror(number))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", no_directories)
    write_atomic(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_disk_error_on_flushing_a_directory_is_told(tmp_path, monkeypatch):
    def broken(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output error"):
        write_atomic(tmp_path / "file", b"content")


def test_a_directory_that_can_be_written_but_not_read_is_tolerated(tmp_path, monkeypatch):
    real = os.open

    def unreadable(path, flags, *more, **named):
        if os.path.isdir(path) and flags == os.O_RDONLY:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", unreadable)
    write_atomic(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"
