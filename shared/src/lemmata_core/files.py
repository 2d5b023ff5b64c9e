"""Files that are either whole or not there, and what reading a damaged one raises."""

from __future__ import annotations

import os
import tempfile
import tokenize
import zipfile
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What NumPy and SciPy raise for .npy, .npz and .mtx files that are cut short, damaged or forged. A missing file is an
#: OSError too: open it before.
DAMAGED = (
    ValueError, OSError, EOFError, KeyError, IndexError, TypeError, OverflowError, MemoryError, NotImplementedError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w", *, encoding: str | None = None) -> Iterator[IO[Any]]:
    """Open a temporary file beside `path`; on leaving, flush it to the disk and rename it to `path`.

    A reader sees the old content or the new, never a part. If the block raises, `path` is as it was and the
    temporary file is gone.

    Parameters
    ----------
    path : path-like
        Its folder must exist. An existing file keeps its permissions.
    mode : {"w", "wb"}
    encoding : str, optional
        UTF-8 for text unless told otherwise.

    Yields
    ------
    file object

    Raises
    ------
    ValueError
        For any other `mode`.
    OSError
        As `open` and `os.replace` raise it.
    """
    if mode not in {"w", "wb"}:
        raise ValueError(f"mode: expected 'w' or 'wb', got {mode!r}")
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:50]}.", suffix=".tmp")
    try:
        with os.fdopen(handle, mode, encoding=None if mode == "wb" else (encoding or "utf-8")) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(_permissions(target))
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    _sync_folder(target.parent)


def _permissions(target: Path) -> int:
    try:
        return target.stat().st_mode & 0o7777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    # A rename is on the disk only once its folder is; Windows cannot open folders and needs no such call.
    with suppress(OSError, AttributeError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
