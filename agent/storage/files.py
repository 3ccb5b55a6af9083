"""Files that are written as a whole or not at all, and links that are replaced so.

A file is written under a temporary name beside its place, flushed to the disk, and then renamed over the old
one; renaming is atomic. So a reader sees the old content or the new one. A killed writer leaves a temporary
file, `.NAME.RANDOM.tmp`, which a later writer in the same directory removes.
"""

import errno
import os
import secrets
import time
from pathlib import Path

CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES)
STALE_AFTER = 600.0  # seconds without a write after which a temporary file has no living writer


def write_atomic(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace the file at `path`.

    Raises:
        OSError: the file cannot be written, or something other than a file is there, such as a directory or
            a device; it stays untouched.
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


def symlink(target: str | os.PathLike[str], link: str | os.PathLike[str]) -> bool:
    """Point `link` at `target` in one atomic step, as a convenience: failing is no error.

    The link is relative if the target lies in the link's directory, so that the directory can be moved. A
    file or directory that is no symbolic link is never replaced.

    Returns:
        True if the link now points at the target.
    """
    link = Path(link)
    target, directory = Path(target).resolve(), link.parent.resolve()
    if target.is_relative_to(directory):
        target = target.relative_to(directory)
    temporary = link.with_name(f".{link.name}.{secrets.token_hex(4)}.tmp")
    try:
        if os.path.lexists(link) and not link.is_symlink():
            return False
        temporary.symlink_to(target)
        os.replace(temporary, link)
    except OSError:
        return False
    return True


def _remove_stale(directory: Path) -> None:
    """Remove temporary files whose writers were killed."""
    for temporary in directory.glob(".*.*.tmp"):
        try:
            if time.time() - temporary.stat().st_mtime > STALE_AFTER:
                temporary.unlink()
        except FileNotFoundError:  # another writer was faster
            continue


def _sync_directory(directory: Path) -> None:
    """Make the rename survive a loss of power, where the file system can.

    Some file systems (CIFS, FUSE, shared folders of virtual machines) cannot flush a directory, and a
    directory may be writable but not readable.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in CANNOT_FLUSH:
            raise
    finally:
        os.close(descriptor)
