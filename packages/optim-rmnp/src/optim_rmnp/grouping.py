"""Which tensor of a model is a matrix and which way round: groups for `RMNP`, decided by module type."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import positive_int
from torch import nn

from optim_rmnp.checks import check_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

POLICIES = ("hidden", "all")
HEAD_NAMES = ("lm_head", "head", "output", "classifier", "score")

_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
_NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.modules.batchnorm._NormBase)
_TRANSPOSED_CONVS = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
# Gates that torch stacks on dimension 0 of a recurrent layer's weights.
_GATES = {nn.LSTM: 4, nn.GRU: 3, nn.LSTMCell: 4, nn.GRUCell: 3}


def param_groups(
    model: nn.Module,
    *,
    lr: float = 4e-3,
    aux_lr: float = 3e-3,
    weight_decay: float = 0.1,
    aux_weight_decay: float = 0.1,
    policy: str = "hidden",
    head: nn.Module | str | None = None,
    stacked: Mapping[str, int] | None = None,
) -> list[dict[str, Any]]:
    """Parameter groups for `RMNP`: matrices to row normalisation, the rest to AdamW.

    Embeddings, the head, norms and vectors go to AdamW (norms and vectors without decay); every other tensor of two
    or more dimensions to RMNP. Tied weights appear once, as the embedding. `optim_rmnp.describe` shows the outcome.

    Parameters
    ----------
    model : torch.nn.Module
        Not changed. Names that `torch.compile` has prefixed are read without the prefix.
    lr, weight_decay : float
        Of the RMNP groups.
    aux_lr, aux_weight_decay : float
        Of the AdamW groups.
    policy : {"hidden", "all"}
        "hidden" as above (the paper's LLaMA runs); "all" gives RMNP the embeddings and the head too (its "RMNP-All"
        and GPT-2 runs).
    head : torch.nn.Module or str, optional
        The output layer, or its dotted name. None: the Linear that shares an embedding's weight, else the last Linear
        whose name ends in lm_head, head, output, classifier or score, else none.
    stacked : mapping of str to int, optional
        From patterns of parameter names (``"*.qkv.weight"``) to the number of matrices that lie on top of each other.
        Known without: `in_proj_weight` of `nn.MultiheadAttention`, the gates of `nn.LSTM` and `nn.GRU`.

    Returns
    -------
    list of dict
        Each with ``params`` (tensors), ``param_names``, ``algorithm``, ``lr``, ``weight_decay`` and what RMNP needs
        to know of the layout.

    Raises
    ------
    InvalidInput
        For a rate or decay that is no finite number >= 0, a head that is not in the model, and a pattern that matches
        no matrix.
    """
    if not isinstance(model, nn.Module):
        raise InvalidInput.argument("model", expected="a torch.nn.Module", got=model)
    if policy not in POLICIES:
        raise InvalidInput.argument("policy", expected='"hidden" or "all"', got=policy)
    _check_rates(lr=lr, aux_lr=aux_lr, weight_decay=weight_decay, aux_weight_decay=aux_weight_decay)
    patterns = _patterns(stacked)
    head_module = _find_head(model, head)
    # A head of several layers is given by the module that holds them.
    head_modules = set(head_module.modules()) if head_module is not None else set()
    rmnp = {"algorithm": "rmnp", "lr": lr, "weight_decay": weight_decay}
    adamw = {"algorithm": "adamw", "lr": aux_lr, "weight_decay": aux_weight_decay}
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    used = set()
    for name, module, param in _owned(model):
        if nn.parameter.is_lazy(param):
            raise InvalidInput.argument("model", expected="parameters with a shape (run lazy modules once)", got=name)
        keys = dict(adamw)
        if param.ndim < 2 or isinstance(module, _NORMS) or _is_vector(module, name):
            keys["weight_decay"] = 0.0
        elif policy == "all" or not (isinstance(module, _EMBEDDINGS) or module in head_modules):
            keys = rmnp | _orientation(module, name, param)
            for pattern, count in patterns.items():
                if fnmatchcase(name, clean_name(pattern)):
                    keys["stacked"] = count
                    used.add(pattern)
        group = groups.setdefault(tuple(sorted(keys.items())), {"params": [], "param_names": [], **keys})
        group["params"].append(param)
        group["param_names"].append(name)
    unused = sorted(set(patterns) - used)
    if unused:
        expected = "patterns that match the name of a matrix in an 'rmnp' group"
        raise InvalidInput.argument("stacked", expected=expected, got=", ".join(unused))
    return sorted(groups.values(), key=lambda group: bool(group["algorithm"] == "adamw"))


def _check_rates(**numbers: Any) -> None:
    for name, value in numbers.items():
        check_number(name, value)
        if isinstance(value, np.ndarray):  # cannot be a key, and no optimizer takes one
            raise InvalidInput.argument(name, expected="a number", got=value)


def _patterns(stacked: Any) -> dict[str, int]:
    try:
        patterns = dict(stacked or {})
    except (TypeError, ValueError):
        raise InvalidInput.argument("stacked", expected="a mapping of name patterns to counts", got=stacked) from None
    for pattern, count in patterns.items():
        if not isinstance(pattern, str):
            raise InvalidInput.argument("stacked", expected="name patterns as keys", got=pattern)
        positive_int(count, f"stacked[{pattern!r}]")
    return patterns


def clean_name(name: str) -> str:
    """A parameter's name without what `torch.compile` puts in front."""
    return name.replace("_orig_mod.", "")


def _owned(model: nn.Module) -> Iterator[tuple[str, nn.Module, Tensor]]:
    """Every parameter once, with its name and the module that says what it is: an embedding before a tied Linear."""
    owners: dict[int, tuple[str, nn.Module, Tensor]] = {}
    for prefix, module in model.named_modules():
        for leaf, param in module.named_parameters(recurse=False):
            name = clean_name(f"{prefix}.{leaf}" if prefix else leaf)
            known = owners.get(id(param))
            if known is None or (isinstance(module, _EMBEDDINGS) and not isinstance(known[1], _EMBEDDINGS)):
                owners[id(param)] = (name, module, param)
    return iter(list(owners.values()))


def _find_head(model: nn.Module, head: nn.Module | str | None) -> nn.Module | None:
    modules: dict[str, nn.Module] = {clean_name(name): module for name, module in model.named_modules()}
    if isinstance(head, str):
        if clean_name(head) not in modules:
            raise InvalidInput.argument("head", expected="the dotted name of a module of the model", got=head)
        return modules[clean_name(head)]
    if head is not None:
        if not any(module is head for module in modules.values()):
            raise InvalidInput.argument("head", expected="a module of the model", got=type(head).__name__)
        return head
    tied = {id(module.weight) for module in modules.values() if isinstance(module, _EMBEDDINGS)}
    linears = {name: module for name, module in modules.items() if isinstance(module, nn.Linear)}
    for module in linears.values():
        if id(module.weight) in tied:
            return module
    named: list[nn.Module] = [
        module for name, module in linears.items() if name.rpartition(".")[2].endswith(HEAD_NAMES)
    ]
    return named[-1] if named else None


def _is_vector(module: nn.Module, name: str) -> bool:
    """Whether a tensor of two or more dimensions is a vector by its meaning: the lengths of `weight_norm`, a bias."""
    leaf = name.rpartition(".")[2]
    if isinstance(module, nn.MultiheadAttention) and leaf in ("bias_k", "bias_v"):
        return True
    if isinstance(module, nn.utils.parametrize.ParametrizationList):
        kinds = {type(parametrization).__name__ for parametrization in module}
        return leaf == "original0" and "_WeightNorm" in kinds
    return leaf.endswith("_g") and hasattr(module, f"{leaf[:-2]}_v")


def _orientation(module: nn.Module, name: str, param: Tensor) -> dict[str, Any]:
    """The layout keys that follow from the type of the module."""
    leaf = name.rpartition(".")[2]
    if isinstance(module, _TRANSPOSED_CONVS):
        return {"input_dim": 0, "kind": "conv"}
    if isinstance(module, (*_CONVS, nn.Bilinear)):
        return {"kind": "conv"}
    # Hugging Face's GPT-2 layers; by name, since transformers is not a dependency.
    if type(module).__name__ == "Conv1D" and param.ndim == 2 and hasattr(module, "nf"):
        return {"input_dim": 0}
    if isinstance(module, nn.MultiheadAttention) and leaf == "in_proj_weight":
        return {"stacked": 3}
    for kind, gates in _GATES.items():
        if isinstance(module, kind) and leaf.startswith(("weight_ih", "weight_hh")):
            return {"stacked": gates}
    return {"kind": "stack"} if param.ndim > 2 else {}
