"""What of an agent goes to the disk, and how it comes back."""

from __future__ import annotations

import json
import os
import platform
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from lemmata_core import InvalidInput
from lemmata_core.files import atomic_write

from rl_mfpo import checkpoint
from rl_mfpo.collector import ResumeReport
from rl_mfpo.config import MFPOConfig
from rl_mfpo.spaces import ActionScale, Spaces

if TYPE_CHECKING:
    from rl_mfpo.agent import MFPO
    from rl_mfpo.environments import EnvLike

    A = TypeVar("A", bound=MFPO)

FORMAT = "rl-mfpo agent"
VERSION = 1
COUNTERS = ("num_timesteps", "last_transitions", "since_update", "seconds")


def machine() -> dict[str, Any]:
    """What the bits of a sum of floats depend on besides its terms."""
    return {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "processor": platform.machine(),
        "torch_threads": torch.get_num_threads(),
    }


def _meta(agent: MFPO) -> dict[str, Any]:
    scale = agent.spaces.scale
    return {
        "config": agent.config.to_dict(),
        "seed": agent.seed,
        "obs_dim": agent.spaces.obs_dim,
        "action": {"low": scale.low.tolist(), "high": scale.high.tolist(), "dtype": str(scale.low.dtype)},
        "env": agent.env_id,
        "n_envs": agent.n_envs,
        "vectorization": agent.vectorization,
        "device": agent.device.type,
        "machine": machine(),
        "counters": {name: getattr(agent, name) for name in COUNTERS},
        "episodes": list(agent.episodes),
        "logger": agent.logger.state_dict(),
        "callbacks": agent.callback_states(),
        "generators": agent.random.numpy_states(),
    }


def _state(agent: MFPO) -> dict[str, Any]:
    return {"learner": agent.learner.state_dict(), "generators": agent.random.torch_states()}


def _apply(agent: MFPO, state: dict[str, Any], meta: dict[str, Any]) -> None:
    learner = dict(state["learner"])
    # The state of a CPU's generator means nothing to a GPU's.
    same_device = meta["device"] == agent.device.type
    if not same_device:
        learner["generator"] = agent.learner.generator.get_state()
    agent.learner.load_state_dict(learner)
    agent.random.load(meta["generators"], state["generators"] if same_device else None)
    for name in COUNTERS:
        setattr(agent, name, meta["counters"][name])
    agent.episodes = deque(((float(r), int(n)) for r, n in meta["episodes"]), maxlen=100)


def _blank(cls: type[A], meta: dict[str, Any], device: Any, **options: Any) -> A:
    dtype = np.dtype(meta["action"]["dtype"])
    low, high = (np.array(meta["action"][end], dtype=dtype) for end in ("low", "high"))
    agent = cls(
        Spaces(int(meta["obs_dim"]), ActionScale(low, high)),
        config=MFPOConfig.from_dict(meta["config"]),
        seed=int(meta["seed"]),
        device=device,
        vectorization=meta["vectorization"],
        **options,
    )
    agent.env_id = meta["env"]
    return agent


def save_agent(agent: MFPO, path: str | os.PathLike[str]) -> None:
    """Write ``{format, version, meta, state}``, tensors and plain values only, to a temporary name and rename it."""
    content = {"format": FORMAT, "version": VERSION, "meta": json.dumps(_meta(agent)), **_state(agent)}
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise InvalidInput.argument("path", expected="a file in a folder that exists", got=str(target))
    with atomic_write(target, "wb") as file:
        torch.save(content, file)


def read_agent(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a file of `save_agent`: its plain values, and its tensors.

    Raises
    ------
    InvalidInput
        For any other file. Nothing in it is run: tensors and plain values are all that is read.
    """
    expected = "a file that MFPO.save wrote"
    if Path(path).is_dir():
        raise InvalidInput.argument("path", expected=expected, got=f"the folder {path}; MFPO.resume reads checkpoints")
    try:
        content = checkpoint.load_tensors(Path(path), str(path))
    except FileNotFoundError:
        raise InvalidInput.argument("path", expected=expected, got=f"{path}, which is not there") from None
    except (RuntimeError, ValueError, EOFError, OSError) as err:
        raise InvalidInput.argument(
            "path", expected=expected, got=f"{path} ({(str(err) or type(err).__name__).splitlines()[0][:100]})"
        ) from err
    if not isinstance(content, dict) or content.get("format") != FORMAT or content.get("version") != VERSION:
        raise InvalidInput.argument("path", expected=f"{expected} (version {VERSION})", got=f"{path}, something else")
    try:
        return json.loads(content["meta"]), content
    except (KeyError, TypeError, ValueError) as err:
        raise InvalidInput.argument("path", expected=expected, got=f"{path} (damaged: {err!r})") from err


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file of `save_agent`, or the newest checkpoint of a folder, is: plain values.

    Raises
    ------
    InvalidInput
    """
    folder = Path(path)
    if (folder / "checkpoint").is_dir() and not checkpoint.manifests(folder):
        folder = folder / "checkpoint"
    if folder.is_dir():
        saved = checkpoint.read(folder)
        meta, kind = saved.meta, f"checkpoint {saved.sequence}"
        rows = saved.total - (saved.chunks[0].start if saved.chunks else saved.total)
    else:
        meta, kind, rows = read_agent(path)[0], "policy", 0
    last = [float(r) for r, _ in meta["episodes"]][-10:]
    return {
        "kind": kind,
        "env": meta["env"],
        "seed": meta["seed"],
        "transitions": meta["counters"]["num_timesteps"],
        "replay_rows": rows,
        "wall_time": meta["counters"]["seconds"],
        "last_return_mean": float(np.mean(last)) if last else None,
        "observation_dim": meta["obs_dim"],
        "action_low": meta["action"]["low"],
        "action_high": meta["action"]["high"],
        "torch": meta["machine"]["torch"],
        "config": meta["config"],
    }


def load_agent(cls: type[A], path: str | os.PathLike[str], env: EnvLike | None, device: Any) -> A:
    """See `MFPO.load`."""
    meta, content = read_agent(path)
    with _damage_named(path):
        agent = _blank(cls, meta, device)
    if env is not None:
        agent.set_env(env)
    with _damage_named(path):
        _apply(agent, content, meta)
    return agent


@contextmanager
def _damage_named(path: str | os.PathLike[str]) -> Iterator[None]:
    """What a file lacks or holds in another form, as `InvalidInput`."""
    try:
        yield
    except InvalidInput:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as err:
        got = f"{path} (damaged: {err!r:.200})"
        raise InvalidInput.argument("path", expected="a file that MFPO.save wrote", got=got) from err


def save_checkpoint(agent: MFPO, path: str | os.PathLike[str], keep: int) -> None:
    """See `MFPO.save_checkpoint`."""
    collector, buffer = agent.collector, agent.buffer
    if collector is None or buffer is None:
        raise InvalidInput("save_checkpoint: there is no environment; `save` keeps the policy")
    folder = Path(path).absolute()
    store = agent.stores.setdefault(folder, checkpoint.CheckpointStore(folder))
    state = {**_state(agent), "collector": checkpoint.arrays_to_tensors(collector.state_dict())}
    store.save(state, _meta(agent), buffer, keep)


def resume(
    cls: type[A],
    path: str | os.PathLike[str],
    env: EnvLike | None,
    device: Any,
    replay_path: str | os.PathLike[str] | None,
) -> A:
    """See `MFPO.resume`."""
    saved = checkpoint.read(path)
    meta = saved.meta
    world = meta["env"] if env is None else env
    if world is None:
        expected = "the environment (the checkpoint names none: it was handed over ready-made)"
        raise InvalidInput.argument("env", expected=expected, got=None)
    agent = _blank(cls, meta, device, replay_path=replay_path)
    # A vector environment, and one that is ready-made, have the number of copies that they have.
    agent.set_env(world, int(meta["n_envs"]) if isinstance(world, str) or not hasattr(world, "step") else 1)
    _apply(agent, saved.state, meta)
    agent.logger.load_state_dict(meta["logger"])
    agent.saved_callback_states = meta["callbacks"]
    assert agent.buffer is not None  # noqa: S101 - made by set_env
    assert agent.collector is not None  # noqa: S101
    saved.fill(agent.buffer)
    folder = Path(path).absolute()
    agent.stores[folder] = checkpoint.CheckpointStore(folder, saved.chunks)
    reasons, steps = agent.collector.restore(checkpoint.tensors_to_arrays(saved.state["collector"]))
    reasons = [*_differences(agent, meta), *reasons]
    agent.resume_report = ResumeReport(not reasons, tuple(reasons), agent.num_timesteps, steps)
    if reasons:
        warnings.warn(f"the run goes on, but not exactly: {'; '.join(reasons)}", UserWarning, stacklevel=3)
    return agent


def _differences(agent: MFPO, meta: dict[str, Any]) -> list[str]:
    now = {**machine(), "device": agent.device.type}
    then = {**meta["machine"], "device": meta["device"]}
    return [
        f"{key} was {then.get(key)} and is {now[key]}: sums may round differently"
        for key in now
        if then.get(key) != now[key]
    ]
