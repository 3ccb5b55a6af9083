"""Files that are there as a whole or not at all, whatever kills the writer.

A file is written under a temporary name next to its place, flushed to the disk, and then renamed over the old
one; renaming is atomic. So a reader sees the old content or the new. What a killed writer leaves is a
temporary file, `.NAME.RANDOM.tmp`, which a later writer in the same directory removes.
"""

import errno
import os
import secrets
import time
from pathlib import Path

STALE_AFTER = 600.0  # seconds without a write after which a temporary file has no living writer


def write_atomic(path: str | os.PathLike[str], content: bytes) -> None:
    """Replaces the file at `path`.

    Raises:
        OSError: the file cannot be written, or something is there that is no file, such as a directory or a
            device; what was there before is untouched.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "There is something that is no regular file", str(path))
    _remove_stale(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None  # names the file that was asked for
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _remove_stale(directory: Path) -> None:
    """Removes temporary files whose writers were killed."""
    for temporary in directory.glob(".*.*.tmp"):
        try:
            if time.time() - temporary.stat().st_mtime > STALE_AFTER:
                temporary.unlink()
        except FileNotFoundError:  # another writer was faster
            continue


def _sync_directory(directory: Path) -> None:
    """Makes the rename survive a loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
