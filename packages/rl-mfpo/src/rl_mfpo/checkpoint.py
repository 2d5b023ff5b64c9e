"""Checkpoints on the disk: whole or not there, checked when read, nothing unpickled but plain tensors.

A folder holds, for each checkpoint, ``manifest-N.json`` (written last: what it lists is complete), ``state-N.pt``
(tensors and
numbers, read by ``torch.load(weights_only=True)``), and files of replay rows that checkpoints share: each save adds
only the rows that are new.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from lemmata_core import InvalidInput
from lemmata_core.check import positive_int
from lemmata_core.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rl_mfpo.buffer import ReplayBuffer

FORMAT = "rl-mfpo checkpoint"
VERSION = 1
_READ_ROWS = 65_536


@dataclass(frozen=True)
class Chunk:
    """Rows `start` to `stop` of the replay's stream, in one file."""

    file: str
    start: int
    stop: int
    sha256: str


@dataclass(frozen=True)
class Checkpoint:
    """What `read` found. `state` holds tensors, `meta` plain values."""

    path: Path
    sequence: int
    state: dict[str, Any]
    meta: dict[str, Any]
    chunks: tuple[Chunk, ...]
    total: int

    def fill(self, buffer: ReplayBuffer) -> None:
        """Put the saved rows into an empty buffer, at their places in the stream."""
        first = self.chunks[0].start if self.chunks else self.total
        buffer.total = first
        for chunk in self.chunks:
            rows = np.memmap(self.path / chunk.file, dtype=np.float32, mode="r").reshape(-1, buffer.width)
            for begin in range(0, len(rows), _READ_ROWS):
                buffer.append_rows(rows[begin : begin + _READ_ROWS])


class CheckpointStore:
    """Writes a run's checkpoints into a folder.

    Parameters
    ----------
    path : path-like
        Made if it is not there.
    chunks : sequence of Chunk
        Rows of this run that the folder already holds.
    """

    def __init__(self, path: str | os.PathLike[str], chunks: tuple[Chunk, ...] = ()) -> None:
        self.path = Path(path)
        self._chunks = list(chunks)

    def save(self, state: dict[str, Any], meta: dict[str, Any], buffer: ReplayBuffer, keep: int = 1) -> Path:
        """Write a checkpoint, then remove all but the newest `keep`.

        Returns
        -------
        pathlib.Path
            Its manifest. Until that is there, the previous checkpoint is the newest one and complete.
        """
        keep = positive_int(keep, "keep")
        self.path.mkdir(parents=True, exist_ok=True)
        sequence = max(manifests(self.path), default=0) + 1
        chunks = self._save_rows(buffer)
        held = io.BytesIO()
        torch.save(state, held)
        name = f"state-{sequence:06d}.pt"
        with atomic_write(self.path / name, "wb") as file:
            file.write(held.getbuffer())
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "sequence": sequence,
            "state": {"file": name, "sha256": hashlib.sha256(held.getbuffer()).hexdigest()},
            "replay": {"total": buffer.total, "chunks": [vars(chunk) for chunk in chunks]},
            "meta": meta,
        }
        target = self.path / f"manifest-{sequence:06d}.json"
        with atomic_write(target) as file:
            json.dump(manifest, file)
        self._chunks = chunks
        self._remove_old(keep)
        return target

    def _save_rows(self, buffer: ReplayBuffer) -> list[Chunk]:
        oldest = buffer.total - len(buffer)
        chunks = [c for c in self._chunks if c.stop > oldest and (self.path / c.file).exists()]
        start = max(chunks[-1].stop if chunks else oldest, oldest)
        # A chunk no longer than what is new is written again with it: the number of files grows with the logarithm.
        while chunks and oldest <= chunks[-1].start and chunks[-1].stop - chunks[-1].start <= buffer.total - start:
            start = chunks.pop().start
        if start == buffer.total:
            return chunks
        digest = hashlib.sha256()
        for begin in range(start, buffer.total, _READ_ROWS):
            digest.update(buffer.read_rows(begin, min(begin + _READ_ROWS, buffer.total)).tobytes())
        name = f"replay-{start:012d}-{buffer.total:012d}-{digest.hexdigest()[:8]}.f32"
        with atomic_write(self.path / name, "wb") as file:
            for begin in range(start, buffer.total, _READ_ROWS):
                file.write(buffer.read_rows(begin, min(begin + _READ_ROWS, buffer.total)).tobytes())
        return [*chunks, Chunk(name, start, buffer.total, digest.hexdigest())]

    def _remove_old(self, keep: int) -> None:
        found = manifests(self.path)
        used: set[str] = set()
        for sequence in sorted(found)[-keep:]:
            with suppress(OSError, ValueError, KeyError):
                content = json.loads(found[sequence].read_text(encoding="utf-8"))
                used |= {found[sequence].name, content["state"]["file"]}
                used |= {chunk["file"] for chunk in content["replay"]["chunks"]}
        # A manifest goes before what it lists. What a killed process left under temporary names goes too.
        for path in sorted(self.path.iterdir(), key=lambda p: not p.name.startswith("manifest-")):
            ours = path.name.startswith(("manifest-", "state-", "replay-"))
            left = path.name.startswith((".manifest-", ".state-", ".replay-")) and path.suffix == ".tmp"
            if left or (ours and path.name not in used):
                with suppress(OSError):
                    path.unlink()


def manifests(path: Path) -> dict[int, Path]:
    """The manifests of a folder by their number; the largest is the newest."""
    found = {}
    for file in path.glob("manifest-*.json"):
        with suppress(ValueError):
            found[int(file.stem.removeprefix("manifest-"))] = file
    return found


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """Read the newest complete checkpoint of a folder.

    Raises
    ------
    InvalidInput
        Where there is none, or none whose files agree with their checksums. A damaged one is passed over, with a
        warning, for the one before it.
    """
    folder = Path(path)
    expected = "a folder with a checkpoint (manifest-*.json)"
    if not folder.is_dir():
        raise InvalidInput.argument("path", expected=expected, got=f"{folder}, which is no folder")
    found = manifests(folder)
    if not found:
        raise InvalidInput.argument("path", expected=expected, got=f"{folder}, which has none")
    problems = []
    for sequence in sorted(found, reverse=True):
        try:
            checkpoint = _read_one(folder, found[sequence], sequence)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as err:
            problems.append(f"{found[sequence].name}: {err}")
            continue
        for problem in problems:
            warnings.warn(f"passed over a damaged checkpoint: {problem}", UserWarning, stacklevel=3)
        return checkpoint
    raise InvalidInput.argument("path", expected="an undamaged checkpoint", got="; ".join(problems))


def _read_one(folder: Path, manifest: Path, sequence: int) -> Checkpoint:
    content = json.loads(manifest.read_text(encoding="utf-8"))
    if content.get("format") != FORMAT or content.get("version") != VERSION:
        raise InvalidInput(
            f"format {content.get('format')!r} version {content.get('version')!r}, not {FORMAT!r} {VERSION}"
        )
    data = _inside(folder, content["state"]["file"]).read_bytes()
    if hashlib.sha256(data).hexdigest() != content["state"]["sha256"]:
        raise InvalidInput(f"{content['state']['file']} does not agree with its checksum")
    chunks = tuple(Chunk(**chunk) for chunk in content["replay"]["chunks"])
    for chunk in chunks:
        digest = hashlib.sha256()
        for block in _blocks(_inside(folder, chunk.file)):
            digest.update(block)
        if digest.hexdigest() != chunk.sha256:
            raise InvalidInput(f"{chunk.file} does not agree with its checksum")
    state = load_tensors(io.BytesIO(data), content["state"]["file"])
    return Checkpoint(folder, sequence, state, content["meta"], chunks, int(content["replay"]["total"]))


def load_tensors(source: Any, name: str) -> Any:
    """Read tensors and plain values, nothing else, from a file of `torch.save`.

    Raises
    ------
    InvalidInput
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch takes other bytes for a pickle of a newer protocol
            return torch.load(source, map_location="cpu", weights_only=True)
    except (OSError, MemoryError):
        raise
    except Exception as err:
        # Bytes that are no pickle run into any exception of the unpickler's: KeyError, IndexError, struct.error, ...
        raise InvalidInput(f"{name} holds something else than tensors and plain values") from err


def _inside(folder: Path, name: str) -> Path:
    if Path(name).name != name:
        raise InvalidInput(f"{name!r} is not the name of a file in the folder")
    return folder / name


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(1 << 24):
            yield block


def arrays_to_tensors(value: Any) -> Any:
    """Turn numpy arrays in nested dicts and lists into tensors, which a checkpoint can hold."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, dict):
        return {key: arrays_to_tensors(item) for key, item in value.items()}
    if isinstance(value, list):
        return [arrays_to_tensors(item) for item in value]
    return value


def tensors_to_arrays(value: Any) -> Any:
    """Undo `arrays_to_tensors`."""
    if isinstance(value, torch.Tensor):
        array: NDArray[Any] = value.numpy()
        return array
    if isinstance(value, dict):
        return {key: tensors_to_arrays(item) for key, item in value.items()}
    if isinstance(value, list):
        return [tensors_to_arrays(item) for item in value]
    return value
