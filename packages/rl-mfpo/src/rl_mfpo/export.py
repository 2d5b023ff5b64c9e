"""A trained policy for deployment: ONNX or torch.export, with scaling and clipping inside and the noise as an input."""

from __future__ import annotations

import copy
import logging
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import InvalidInput
from lemmata_core.check import one_of, positive_int
from lemmata_core.files import atomic_write

if TYPE_CHECKING:
    from torch import nn

    from rl_mfpo.policy import MeanFlowPolicy
    from rl_mfpo.spaces import ActionScale

TOLERANCE = 1e-5


def export_policy(
    policy: MeanFlowPolicy,
    obs_dim: int,
    scale: ActionScale,
    path: str | os.PathLike[str],
    *,
    format: str = "onnx",  # noqa: A002 - the word that everybody uses
    steps: int | None = None,
) -> Path:
    """Write a policy as a graph without random operations.

    The graph has two inputs, ``observation`` (n, O) and ``noise`` (n, A), float32 and standard normal, and one output,
    ``action`` (n, A), in the environment's bounds; n is free. The same noise gives the same action as
    ``policy.sample(observation, noise=noise)``, scaled. The written graph is run once and compared.

    Parameters
    ----------
    policy : MeanFlowPolicy
    obs_dim : int
    scale : ActionScale
    path : path-like
    format : {"onnx", "torch_export"}
        ONNX needs the extra ``export``. ``torch.export.load(path).module()`` runs the other one.
    steps : int, optional
        Network evaluations an action (1, 2, 4, ...); those of the training unless told otherwise.

    Returns
    -------
    pathlib.Path
        `path`.

    Raises
    ------
    InvalidInput
    """
    one_of(format, "format", ("onnx", "torch_export"))
    count = None if steps is None else positive_int(steps, "steps")
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise InvalidInput.argument("path", expected="a file in a folder that exists", got=str(target))
    low, high = torch.from_numpy(scale.low.astype("float32")), torch.from_numpy(scale.high.astype("float32"))
    module = copy.deepcopy(policy).cpu().deployable(steps=count, low=low, high=high).eval()
    rng = torch.Generator().manual_seed(0)
    example = (torch.randn(3, obs_dim, generator=rng), torch.randn(3, scale.dim, generator=rng))
    if format == "onnx":
        _onnx(module, example, target)
    else:
        _torch_export(module, example, target)
    return target


def _torch_export(module: nn.Module, example: tuple[torch.Tensor, ...], target: Path) -> None:
    rows = torch.export.Dim("n")
    program = torch.export.export(module, example, dynamic_shapes=({0: rows}, {0: rows}))
    with atomic_write(target, "wb") as file:
        torch.export.save(program, file)
    with torch.no_grad():
        _compare(module(*example), torch.export.load(target).module()(*example))


def _onnx(module: nn.Module, example: tuple[torch.Tensor, ...], target: Path) -> None:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - torch's exporter needs it
    except ImportError as err:
        expected = "the extra: pip install 'rl-mfpo[export]'"
        raise InvalidInput.argument("format", expected=expected, got=str(err)) from err
    rows = torch.export.Dim("n")
    log = logging.getLogger("torch.onnx")
    level = log.level
    with warnings.catch_warnings():
        # The exporter warns of its own deprecated calls and of packages that it misses; the result is compared below.
        warnings.simplefilter("ignore")
        log.setLevel(logging.ERROR)
        program: Any = torch.onnx.export(
            module,
            example,
            input_names=["observation", "noise"],
            output_names=["action"],
            dynamic_shapes=({0: rows}, {0: rows}),
            dynamo=True,
            verbose=False,
        )
        log.setLevel(level)
    data = program.model_proto.SerializeToString()
    with atomic_write(target, "wb") as file:
        file.write(data)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    got = session.run(None, {"observation": example[0].numpy(), "noise": example[1].numpy()})[0]
    with torch.no_grad():
        _compare(module(*example), torch.from_numpy(got))


def _compare(expected: torch.Tensor, got: torch.Tensor) -> None:
    worst = float((expected - got).abs().max() / expected.abs().max().clamp(min=1.0))
    if worst > TOLERANCE:
        raise RuntimeError(f"the exported policy differs from the trained one by {worst:.2g}, more than {TOLERANCE:g}")
