"""Experience replay: one preallocated array, its size checked against a byte budget before it is allocated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from lemmata_core import InvalidInput
from lemmata_core.check import array, positive_int

from rl_mfpo.learner import Batch

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ReplayBuffer:
    """The last `capacity` transitions.

    A transition is one row of float32: observation, action, reward, next observation, terminated. The rows that were
    ever added form a stream; the buffer holds its last part, and `total` counts all of it.

    Parameters
    ----------
    capacity : int
        Transitions.
    obs_dim, action_dim : int
        O and A. A row takes ``4 (2 O + A + 2)`` bytes.
    max_bytes : int, optional
        Budget; by default 80 % of the memory that is free now, or of the free space where `path` is given.
    path : path-like, optional
        Keep the rows in this file (memory-mapped, sparse until written) instead of in memory. An existing file is
        replaced.

    Raises
    ------
    InvalidInput
        Before anything is allocated, where the budget is too small.
    """

    def __init__(
        self,
        capacity: int,
        obs_dim: int,
        action_dim: int,
        *,
        max_bytes: int | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        self.capacity = positive_int(capacity, "capacity")
        self.obs_dim = positive_int(obs_dim, "obs_dim")
        self.action_dim = positive_int(action_dim, "action_dim")
        self.width = 2 * obs_dim + action_dim + 2
        self.total = 0
        budget = _free_bytes(path) if max_bytes is None else positive_int(max_bytes, "max_bytes")
        if self.nbytes > budget:
            need = f"{self.nbytes / 2**20:.1f} MiB for {capacity} transitions of {self.width} numbers"
            hint = (
                "lower buffer_size"
                if path is not None
                else "lower buffer_size or keep the replay in a file (replay_path)"
            )
            expected = f"at most {budget / 2**20:.1f} MiB of replay"
            raise InvalidInput.argument("buffer_size", expected=expected, got=f"{need}: {hint}")
        shape = (self.capacity, self.width)
        if path is None:
            self._rows: NDArray[np.float32] = np.zeros(shape, dtype=np.float32)
        else:
            self._rows = np.memmap(Path(path), dtype=np.float32, mode="w+", shape=shape)
        self._tensor = torch.from_numpy(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the full buffer."""
        return self.capacity * self.width * 4

    def __len__(self) -> int:
        return min(self.total, self.capacity)

    def add(
        self,
        obs: NDArray[Any],
        action: NDArray[Any],
        reward: NDArray[Any],
        next_obs: NDArray[Any],
        terminated: NDArray[Any],
    ) -> None:
        """Append n transitions.

        Parameters
        ----------
        obs, next_obs : numpy.ndarray
            Shape (n, O); cast to float32.
        action : numpy.ndarray
            Shape (n, A), in [-1, 1].
        reward, terminated : numpy.ndarray
            Shape (n,). A truncated episode is not a terminated one: its value goes on.

        Raises
        ------
        InvalidInput
            For another shape, NaN or infinity; the buffer is as before.
        """
        gains = array(reward, "reward", ndim=1, dtype=np.float32)
        n, o, a = len(gains), self.obs_dim, self.action_dim
        rows = np.empty((n, self.width), dtype=np.float32)
        rows[:, :o] = array(obs, "obs", dtype=np.float32, shape=(n, o))
        rows[:, o : o + a] = array(action, "action", dtype=np.float32, shape=(n, a))
        rows[:, o + a] = gains
        rows[:, o + a + 1 : -1] = array(next_obs, "next_obs", dtype=np.float32, shape=(n, o))
        rows[:, -1] = array(terminated, "terminated", dtype=np.float32, shape=(n,))
        self.append_rows(rows)

    def append_rows(self, rows: NDArray[np.float32]) -> None:
        """Append rows as `read_rows` returns them."""
        self.total += max(len(rows) - self.capacity, 0)
        rows = rows[-self.capacity :]
        begin = self.total % self.capacity
        head = min(len(rows), self.capacity - begin)
        self._rows[begin : begin + head] = rows[:head]
        self._rows[: len(rows) - head] = rows[head:]
        self.total += len(rows)

    def read_rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Copy the rows `start` to `stop` of the stream, all of them still held; shape (stop - start, 2 O + A + 2)."""
        if not self.total - len(self) <= start <= stop <= self.total:
            held = f"a part of the stream from {self.total - len(self)} to {self.total}"
            raise InvalidInput.argument("start, stop", expected=held, got=f"{start}, {stop}")
        return self._rows.take(np.arange(start, stop) % self.capacity, axis=0)

    def largest_reward(self) -> float:
        """The largest magnitude of a reward; 0 where there is none."""
        held = self._rows[: len(self), self.obs_dim + self.action_dim]
        return float(np.abs(held).max(initial=0.0))

    def sample(self, batch_size: int, rng: np.random.Generator, device: torch.device | str = "cpu") -> Batch:
        """Draw transitions uniformly, with replacement.

        Parameters
        ----------
        batch_size : int
        rng : numpy.random.Generator
        device : torch.device or str

        Returns
        -------
        Batch
            Tensors of their own: obs (B, O), action (B, A), reward (B,), next_obs (B, O), terminated (B,), float32.
        """
        if self.total == 0:
            raise InvalidInput("sample: the buffer holds no transition yet")
        index = torch.from_numpy(rng.integers(0, len(self), size=positive_int(batch_size, "batch_size")))
        # Tensors that torch allocates are aligned the same in every process: sums over them are the same to the bit.
        rows = self._tensor.index_select(0, index).to(device)
        o, a = self.obs_dim, self.action_dim
        return Batch(
            obs=rows[:, :o].contiguous(),
            action=rows[:, o : o + a].contiguous(),
            reward=rows[:, o + a].contiguous(),
            next_obs=rows[:, o + a + 1 : -1].contiguous(),
            terminated=rows[:, -1].contiguous(),
        )


def _free_bytes(path: str | os.PathLike[str] | None) -> int:
    if path is not None:
        import shutil

        return int(0.8 * shutil.disk_usage(Path(path).absolute().parent).free)
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(0.8 * 1024 * int(line.split()[1]))
    except OSError:
        pass
    try:
        return int(0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 2**62  # Windows says neither; the allocation itself must tell.
