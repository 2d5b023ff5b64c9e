"""The optimizer: groups, state and the choice of path. The mathematics is in `step.py` and `fp8.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import torch
from lemmata_core import InvalidInput
from torch import Tensor
from torch._compile import _disable_dynamo

from optim_bas.adamw import adamw_state, step_adamw_group
from optim_bas.exchange import average_momenta, check_exchange, step_exchanged
from optim_bas.groups import (
    GROUP_KEYS,
    check_group,
    check_iterable,
    check_unsupported,
    check_whole,
    parameter_name,
)
from optim_bas.paths import Item, step_items
from optim_bas.sharding import check_gradient
from optim_bas.state import check_loaded, check_state, check_state_dict, new_state, restored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class BAS(torch.optim.Optimizer):
    r"""Block adaptive signum: AdamW's arguments and behaviour, one byte of state a parameter.

    Parameters
    ----------
    params : iterable
        Tensors, dicts, or (name, tensor) pairs. A dict may carry any of the arguments below and
        ``algorithm`` ("bas"; "adamw" runs torch's own AdamW on the group), ``block_dim`` (0; 1 for weights stored
        (in, out), whose output neurons are columns) and ``stochastic_rounding`` (False; of bfloat16 and float16
        weights).
    lr : float or torch.Tensor of one element
        AdamW's.
    betas : tuple of float
        Both in [0, 1).
    eps : float
        Added to the root of a block's second moment.
    weight_decay : float
        Decoupled, multiplied by `lr`.
    amsgrad : bool
        Must be False.
    block : {"row", "tensor"}, int, or ("rows", int)
        Which entries share a second moment: those of one output neuron (the default; a vector is one block), the
        tensor, runs of so many entries of a row, or so many rows (a head of attention).
    scale : {"rms", "mean"}
        What stands for the size of a block's momentum. "rms" gives the update AdamW's root mean square.
    nesterov : bool
        Take sign and size of the look-ahead ``beta1 m + (1 - beta1) g``: nearer to AdamW's loss at the same memory.
    momentum_dtype : torch.dtype
        float8_e4m3fn, float8_e5m2, bfloat16 or float32.
    rounding : {"auto", "nearest", "stochastic"}
        Of the momentum. "auto" rounds to nearest where a momentum so rounded still decays (for float8_e4m3fn up to
        beta1 = 17/18) and at random above.
    seed : int
        Of the random rounding, which depends on it, the step, the tensor and the entry alone.
    exchange : SignExchange, optional
        Gradients are this worker's own, and signs are sent instead of them.
    maximize : bool
        Ascend.
    foreach, capturable, differentiable : bool, optional
        Must be None or False.
    fused : bool, optional
        None: the one-pass CPU kernel for float32 if numba is there, compiled on CUDA, plain torch otherwise.
        False: plain torch. True: raise where the first two are not available.

    Raises
    ------
    InvalidInput
        For values out of range and complex parameters; from `step` for sparse and `Partial` gradients, before
        anything is changed.

    Notes
    -----
    Our reconstruction of Block Adaptive Signum (ICML 2026) from its abstract, block b of size d_b::

        m <- beta1 m + (1 - beta1) g
        v_b <- beta2 v_b + (1 - beta2) mean_b(g^2)
        a_b = (rms_b(m) / (1 - beta1^t)) / (sqrt(v_b / (1 - beta2^t)) + eps)
        theta <- theta (1 - lr weight_decay) - lr a_b sign(m)

    With blocks of one entry this is AdamW, with both betas 0 it is SignSGD. The state of a tensor is ``exp_avg``
    (uint8, the bit patterns of m / scale), ``exp_avg_scale`` and ``exp_avg_sq`` (float32, one a block) and ``step``.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        block: str | int | tuple[str, int] = "row",
        scale: str = "rms",
        nesterov: bool = False,
        momentum_dtype: torch.dtype = torch.float8_e4m3fn,
        rounding: str = "auto",
        seed: int = 0,
        exchange: Any = None,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_unsupported(amsgrad=amsgrad, foreach=foreach, capturable=capturable, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "block": block,
            "scale": scale,
            "nesterov": nesterov,
            "momentum_dtype": momentum_dtype,
            "rounding": rounding,
            "seed": seed,
            "maximize": maximize,
            "fused": fused,
            **GROUP_KEYS,
        }
        check_iterable(params)
        if exchange is not None:
            check_exchange(exchange)
        self.exchange = exchange
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
        params = group.get("params")
        if not isinstance(params, (Tensor, set)):
            check_iterable(params)
            group["params"] = list(params)  # type: ignore[arg-type]
            pairs = [p if isinstance(p, tuple) else (None, p) for p in group["params"]]
            names = {"param_names": [n for n, _ in pairs]} if pairs and pairs[0][0] is not None else {}
            tensors = [p for _, p in pairs]
        else:
            names, tensors = {}, [params] if isinstance(params, Tensor) else []
        if all(isinstance(p, Tensor) for p in tensors):  # what is not is named by torch's own message
            check_group({**self.defaults, **group, **names, "params": tensors})
            if self.exchange is not None:
                check_whole(tensors)
        super().add_param_group(group)
        self.replicas_checked = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Fill in what older checkpoints and pickles lack."""
        super().__setstate__(state)
        self.__dict__.setdefault("exchange", None)
        self.__dict__.setdefault("replicas_checked", False)
        for group in self.param_groups:
            for key, value in self.defaults.items():
                group.setdefault(key, value)

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Told by this, `torch.amp.GradScaler` leaves it to the optimizer to skip a step.

        Where gradients are local, one worker may find an infinity that the others do not: all have to skip with it, or
        they would wait for its signs.
        """
        return self.exchange is not None

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
            For a sparse gradient, one that its mesh has not summed yet (`Partial`), and a state that was made for
            another shape, `block`, `block_dim` or `momentum_dtype`. No parameter has moved then.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._update()
        return loss

    # A user's compiled training step breaks its graph here, as in torch's own optimizers. This is the form of
    # torch.compiler.disable that loads dynamo when first called.
    @_disable_dynamo
    def _update(self) -> None:
        for group in self.param_groups:
            _check_gradients(group, self.state)
        if self.exchange is not None:
            step_exchanged(self)
            return
        position = 0
        for group in self.param_groups:
            if group["algorithm"] == "adamw":
                step_adamw_group(group, self.state)
            else:
                step_items(self._items(group, position))
            position += len(group["params"])

    def _items(self, group: dict[str, Any], position: int) -> list[Item]:
        """The tensors of a group with their states, made where there are none; zeros for gradients that are not."""
        items = []
        for offset, param in enumerate(group["params"]):
            if param.grad is None and self.exchange is None:
                continue
            state = self.state[param]
            if not state:
                state.update(new_state(param, group))
            grad = torch.zeros_like(param) if param.grad is None else param.grad
            items.append(Item(param, grad, state, group, position + offset))
        return items

    def all_items(self) -> list[Item]:
        """The tensors of all groups that BAS steps, for the exchange."""
        items, position = [], 0
        for group in self.param_groups:
            if group["algorithm"] == "bas":
                items += self._items(group, position)
            position += len(group["params"])
        return items

    def average_momentum(self) -> None:
        """Make the momenta of all workers the same: their mean, encoded anew. To be called by all of them.

        A checkpoint made after it can be loaded by any number of workers; one made without it holds this worker's own
        momenta, and only as many workers can go on from theirs.

        Raises
        ------
        InvalidInput
            If the optimizer has no exchange.
        """
        if self.exchange is None:
            raise InvalidInput.argument(
                "exchange", expected="an optimizer made with exchange=SignExchange()", got="none"
            )
        with torch.no_grad():
            average_momenta(self)

    def allocate(self) -> None:
        """Make the state of all parameters now: to see what it costs, or before loading a distributed checkpoint."""
        for group in self.param_groups:
            for param in group["params"]:
                if group["algorithm"] == "adamw":
                    adamw_state(param, group, self.state)
                elif not self.state[param]:
                    self.state[param].update(new_state(param, group))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a checkpoint of BAS with the same groups.

        Parameters
        ----------
        state_dict : dict
            Left unchanged. Keys that its groups lack are taken from the groups here. Every state tensor keeps the
            dtype it was stored with: torch's own loading would cast it to the parameter's.

        Raises
        ------
        ValueError
            If the numbers of groups or parameters differ.
        InvalidInput
            If it is no state dict, its tensors' shapes are others than here, its momenta were those of another number
            of workers, or it is AdamW's (see `BAS.from_adamw` and the command ``optim-bas convert``). The optimizer
            is then as it was.
        """
        check_state_dict(state_dict)
        final: dict[str, Any] = {}

        def complete(_: torch.optim.Optimizer, loaded: dict[str, Any]) -> dict[str, Any]:
            pairs = zip(loaded["param_groups"], self.param_groups)
            groups = [
                {**{k: v for k, v in own.items() if k not in ("params", "param_names")}, **saved}
                for saved, own in pairs
            ]
            final.update(loaded, param_groups=groups + loaded["param_groups"][len(groups) :])
            check_loaded(final, self.param_groups, 1 if self.exchange is None else self.exchange.workers)
            return final

        def restore(_: torch.optim.Optimizer) -> None:
            for group, saved in zip(self.param_groups, final["param_groups"]):
                for param, key in zip(group["params"], saved["params"]):
                    stored = final["state"].get(key)
                    if stored:
                        self.state[param] = restored(stored, param)

        hooks = [
            self.register_load_state_dict_pre_hook(complete),
            self.register_load_state_dict_post_hook(restore, prepend=True),
        ]
        try:
            super().load_state_dict(state_dict)
        finally:
            for hook in hooks:
                hook.remove()

    @classmethod
    def from_adamw(cls, optimizer: torch.optim.Optimizer, **overrides: Any) -> Self:
        """A BAS that goes on where an AdamW stands.

        Parameters
        ----------
        optimizer : torch.optim.AdamW
            Left untouched.
        **overrides
            Arguments of `BAS`, for all groups.

        Returns
        -------
        BAS
            With the same groups and hyper-parameters: momenta encoded, second moments averaged over blocks, steps
            kept. State is on the parameters' devices.

        Raises
        ------
        InvalidInput
            If it is not an AdamW, uses amsgrad, or a parameter's state is incomplete or of another shape.
        """
        from optim_bas.conversion import convert

        return cast("Self", convert(cls, optimizer, overrides))


def _check_gradients(group: dict[str, Any], states: Mapping[Tensor, Any]) -> None:
    for position, param in enumerate(group["params"]):
        grad = param.grad
        if grad is None:
            continue
        if states.get(param):  # the options that shape it may have been changed, or the parameter
            check_state(param, states[param], group, parameter_name(group, position))
        if grad.layout != torch.strided:
            expected = "a dense tensor (an embedding gives one with sparse=False)"
            name = parameter_name(group, position)
            raise InvalidInput.argument(f"gradient of {name}", expected=expected, got=f"layout {grad.layout}")
        check_gradient(param, grad, parameter_name(group, position))
