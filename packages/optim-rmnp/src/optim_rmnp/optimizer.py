"""The optimizer: groups, state and the choice of path. The mathematics is in `step.py` and `row_norm.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import InvalidInput
from torch import Tensor
from torch._compile import _disable_dynamo

from optim_rmnp.adamw import step_adamw_group
from optim_rmnp.groups import ADAMW_DEFAULTS, GROUP_KEYS, MUON_KEYS, check_group, native_available, parameter_name
from optim_rmnp.layout import Layout, matrix_views, read_layout
from optim_rmnp.loading import check_loaded, completed, restore_momentum
from optim_rmnp.paths import Work, make_viewable, rule_of, step_whole
from optim_rmnp.plan import NativePlan, fits
from optim_rmnp.row_norm import update_scale
from optim_rmnp.sharding import (
    CutMatrix,
    gradient_fault,
    is_dtensor,
    local,
    local_gradient,
    reduction_groups,
    step_cut_matrices,
)
from optim_rmnp.step import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_HALF = (torch.bfloat16, torch.float16)


class RMNP(torch.optim.Optimizer):
    r"""Row-normalised momentum: Muon's signature, and a preconditioner that costs one pass over the matrix.

    Parameters
    ----------
    params : iterable
        Tensors, dicts, or (name, tensor) pairs. A dict may carry, beyond the arguments below:
        ``algorithm`` ("rmnp", or "adamw" with ``betas=(0.9, 0.95)`` and ``eps=1e-8``), ``input_dim`` (-1; 0 for
        weights stored transposed, -2 for expert stacks stored so), ``stacked`` (how many matrices lie on top of each
        other), ``kind`` ("conv" or "stack"; None: three dimensions are a stack, more a convolution) and
        ``stochastic_rounding`` (False; bfloat16 and float16 weights only).
        `optim_rmnp.param_groups` makes such dicts from a model.
    lr : float or torch.Tensor of one element
        Not Muon's: start near 5e-3.
    weight_decay : float
        Decoupled, multiplied by `lr` alone.
    momentum : float
        In [0, 1): the weight of the old average.
    nesterov : bool
        Normalise the look-ahead instead of the momentum.
    eps : float
        Floor of a row's norm.
    adjust_lr_fn : {None, "original", "match_rms_adamw", "spectral_unclamped", "none"}
        The factor on the update, see `optim_rmnp.row_norm.update_scale`.
    zero_rows : {"step", "hold"}
        What a row does whose gradient is exactly zero: move on along its momentum at full length, or keep weight,
        momentum and decay untouched (experts without tokens, dead units).
    momentum_dtype : torch.dtype, optional
        Of the momentum; None: the parameter's. Arithmetic is float32 in any case (float64 for float64 parameters).
    fused : bool, optional
        None: the one-pass CPU kernel for float32 if numba is there, compiled on CUDA, plain torch otherwise.
        False: plain torch. True: raise where the first two are not available.
    maximize : bool
        Ascend.

    Raises
    ------
    InvalidInput
        For values out of range, complex parameters, keys that do not fit a shape, and tensors of fewer than two
        dimensions in an "rmnp" group; from `step` for sparse and `Partial` gradients, before anything is changed.

    Notes
    -----
    arXiv 2603.20527 (Deng et al., ICML 2026), algorithm RMNP as its official code runs it::

        M <- lerp(M, G, 1 - momentum);  U = lerp(G, M, momentum) if nesterov else M
        W <- W (1 - lr weight_decay) - lr s U_i / max(||U_i||, eps)        for every row i

    The state has one tensor a parameter, ``momentum_buffer``, with the meaning it has in `torch.optim.Muon`: each
    continues the other's checkpoint. Multiplying all gradients by a power of two changes no bit of the weights.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 4e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        *,
        eps: float = 1e-12,
        adjust_lr_fn: str | None = None,
        zero_rows: str = "step",
        momentum_dtype: torch.dtype | None = None,
        fused: bool | None = None,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "eps": eps,
            "adjust_lr_fn": adjust_lr_fn,
            "zero_rows": zero_rows,
            "momentum_dtype": momentum_dtype,
            "fused": fused,
            "maximize": maximize,
            **GROUP_KEYS,
        }
        self._plans: dict[int, NativePlan] = {}
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; its dict is copied, its tensors are not.

        Parameters
        ----------
        param_group : dict
            ``params`` and any of the keys that the class describes.

        Raises
        ------
        InvalidInput
            As the class does. The optimizer is then as it was.
        """
        group = dict(param_group)
        if group.get("algorithm") == "adamw":
            group = {**ADAMW_DEFAULTS, **group}
        params = group.get("params")
        if not isinstance(params, (Tensor, set)):
            group["params"] = list(params)  # type: ignore[arg-type]
            pairs = [p if isinstance(p, tuple) else (None, p) for p in group["params"]]
            names = {"param_names": [n for n, _ in pairs]} if pairs and pairs[0][0] is not None else {}
            tensors = [p for _, p in pairs]
        else:
            names, tensors = {}, [params] if isinstance(params, Tensor) else []
        if all(isinstance(p, Tensor) for p in tensors):  # what is not is named by torch's own message
            check_group({**self.defaults, **group, **names, "params": tensors})
        super().add_param_group(group)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Fill in what older checkpoints and pickles lack."""
        super().__setstate__(state)
        self._plans = {}
        for group in self.param_groups:
            if group.get("algorithm") == "adamw":
                for key, value in ADAMW_DEFAULTS.items():
                    group.setdefault(key, value)
            for key, value in self.defaults.items():
                group.setdefault(key, value)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss anew; called with gradients enabled.

        Returns
        -------
        object
            What `closure` returned, or None.

        Raises
        ------
        InvalidInput
            For a sparse gradient, or one that its mesh has not summed yet (`Partial`). No parameter has moved then.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._update()
        return loss

    # A user's compiled training step breaks its graph here: inductor cannot compile the update for CPUs, and on CUDA
    # the update is compiled already. This is the form of torch.compiler.disable that loads dynamo when first called.
    @_disable_dynamo
    def _update(self) -> None:
        planned = [self._planned(i, group) for i, group in enumerate(self.param_groups)]
        for group, gradients in zip(self.param_groups, planned):
            if gradients is None:
                _check_gradients(group)
        position = 0
        for i, (group, gradients) in enumerate(zip(self.param_groups, planned)):
            if group["algorithm"] == "adamw":
                step_adamw_group(group, self.state)
            elif gradients is not None:
                self._plans[i].step(gradients, lambda layout, group=group: rule_of(group, layout))  # type: ignore[misc]
            else:
                self._step_group(group, position)
                self._plan(i, group)
            position += len(group["params"])

    def _planned(self, index: int, group: dict[str, Any]) -> list[int] | None:
        """The gradients' addresses if the group is as the step before left it, and the kernel takes all of it."""
        plan = self._plans.get(index)
        return None if plan is None else plan.gradients(group, self.state)

    def _plan(self, index: int, group: dict[str, Any]) -> None:
        """Keep for the next step what the kernel needs to know of the group, if it takes all of it."""
        self._plans.pop(index, None)
        if group["fused"] is not False and native_available() and fits(group["params"], self.state):
            layouts = [read_layout(p.shape, group, "a parameter") for p in group["params"]]
            self._plans[index] = NativePlan(group, self.state, layouts, lambda layout: rule_of(group, layout))

    def _step_group(self, group: dict[str, Any], position: int) -> None:
        cut: list[CutMatrix] = []
        whole: list[Work] = []
        written_back: list[tuple[Tensor, Tensor]] = []
        rules: dict[Layout, Rule] = {}
        for offset, param in enumerate(group["params"]):
            grad = param.grad
            if grad is None:
                continue
            layout = read_layout(param.shape, group, "a parameter")
            rule = rules.get(layout) or rules.setdefault(layout, rule_of(group, layout))
            momentum = self._momentum(param, group)
            rounding = self._rounding(param, group, position + offset)
            sharded = is_dtensor(param)
            if param.ndim == 2 and not sharded:
                if layout.transposed:
                    whole.append((param.t(), grad.t(), momentum.t(), rule, rounding))
                else:
                    whole.append((param, grad, momentum, rule, rounding))
                continue
            tensors = [param, grad, momentum]
            groups: tuple[Any, ...] = ()
            if sharded:
                tensors = [local(param), local_gradient(param, grad), local(momentum)]
                groups = reduction_groups(param, layout.input_dims)
            if param.ndim > 2:
                make_viewable(tensors, written_back)
            for w, g, m in zip(*(matrix_views(t, layout) for t in tensors)):
                if groups:
                    cut.append(CutMatrix(w, g, m, rule, groups, rounding))
                else:
                    whole.append((w, g, m, rule, rounding))
        step_whole(whole, group["fused"])
        if cut:
            step_cut_matrices(cut)
        for target, copy in written_back:
            target.copy_(copy)

    def _momentum(self, param: Tensor, group: dict[str, Any]) -> Tensor:
        state = self.state[param]
        momentum: Tensor | None = state.get("momentum_buffer")
        if momentum is None:
            dtype = group["momentum_dtype"] or param.dtype
            momentum = torch.zeros_like(param, dtype=dtype, memory_format=torch.contiguous_format)
            state["momentum_buffer"] = momentum
        return momentum

    def _rounding(self, param: Tensor, group: dict[str, Any], index: int) -> torch.Generator | None:
        """A generator fixed by parameter and step, so that replicas round alike and a resumed run repeats."""
        if not group["stochastic_rounding"] or param.dtype not in _HALF:
            return None
        state = self.state[param]
        count = state["step"] = state.get("step", torch.zeros(())) + 1
        seed = (index * 0x9E3779B97F4A7C15 + int(count) * 0xBF58476D1CE4E5B9) % (1 << 63)
        return torch.Generator(param.device).manual_seed(seed)

    def state_dict(self) -> dict[str, Any]:
        """The checkpoint: `momentum_buffer` a matrix, AdamW's state for the rest, and the groups.

        Returns
        -------
        dict
            "rmnp" groups carry torch's defaults of what `torch.optim.Muon` alone has, so that it can go on from here.
        """
        saved: dict[str, Any] = super().state_dict()
        for group in saved["param_groups"]:
            if group["algorithm"] == "rmnp":
                for key, value in MUON_KEYS.items():
                    group.setdefault(key, value)
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a checkpoint of RMNP, or of `torch.optim.Muon` or `AdamW` with the same groups.

        Parameters
        ----------
        state_dict : dict
            Left unchanged. Keys that its groups lack are taken from the groups here; keys that RMNP does not know are
            kept. The momentum keeps its stored dtype where the group has a `momentum_dtype`.

        Raises
        ------
        ValueError
            If the numbers of groups or parameters differ.
        InvalidInput
            If a state's shape, or the kind of state (momentum, or AdamW's averages), does not fit its parameter.
        """
        final: dict[str, Any] = {}

        def complete(_: torch.optim.Optimizer, loaded: dict[str, Any]) -> dict[str, Any]:
            groups = [completed(new, old) for new, old in zip(loaded["param_groups"], self.param_groups)]
            for group, own in zip(groups, self.param_groups):
                check_loaded(group, own["params"], loaded["state"])
            final.update(loaded, param_groups=groups + loaded["param_groups"][len(groups) :])
            return final

        def restore(_: torch.optim.Optimizer) -> None:
            restore_momentum(self, final)

        hooks = [
            self.register_load_state_dict_pre_hook(complete),
            self.register_load_state_dict_post_hook(restore, prepend=True),
        ]
        try:
            super().load_state_dict(state_dict)
        finally:
            for hook in hooks:
                hook.remove()


def _check_gradients(group: dict[str, Any]) -> None:
    checked = set()
    for position, param in enumerate(group["params"]):
        grad = param.grad
        if grad is None:
            continue
        shape = param.shape
        if shape not in checked and group["algorithm"] == "rmnp":
            # The group's keys may have been changed or loaded since they were checked.
            layout = read_layout(shape, group, "a parameter")
            update_scale(layout.rows, layout.fan_in, group["adjust_lr_fn"])
            checked.add(shape)
        if grad.layout != torch.strided:
            expected = "a dense tensor (an embedding gives one with sparse=False)"
            name = parameter_name(group, position)
            raise InvalidInput.argument(f"gradient of {name}", expected=expected, got=f"layout {grad.layout}")
        if fault := gradient_fault(param, grad):
            expected, got = fault
            raise InvalidInput.argument(f"gradient of {parameter_name(group, position)}", expected=expected, got=got)
