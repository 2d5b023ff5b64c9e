"""Tables that are built once for each dtype and device, whatever happens to be going on when they are first needed."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

Build = Callable[[str, Any, torch.dtype, torch.device], Any]


class Store:
    """What `build` makes of one subject, by name, dtype and device, each built when first asked for.

    The compiler must not trace the building, only the use: while tracing, the tables are built by a call that Dynamo
    takes for a constant (it names the store by an integer) and read afterwards.

    Parameters
    ----------
    build : callable
        Top-level function ``build(name, subject, dtype, device)``.
    subject : object
        What the tables are about; must not change.
    """

    def __init__(self, build: Build, subject: Any) -> None:
        self.subject = subject
        self._build = build
        self._made: dict[tuple[str, torch.dtype, torch.device], Any] = {}
        self._register()

    def _register(self) -> None:
        self.handle = next(_HANDLES)
        _STORES[self.handle] = self

    def get(self, name: str, dtype: torch.dtype, device: torch.device) -> Any:
        """The tables, built if need be."""
        if torch.compiler.is_compiling():
            _prepare(self.handle, name, dtype, device)
            return self._made[name, dtype, device]
        made = self._made.get((name, dtype, device))
        return made if made is not None else self.build(name, dtype, device)

    def build(self, name: str, dtype: torch.dtype, device: torch.device) -> Any:
        """Build and keep the tables, unless they are there."""
        key = name, dtype, device
        if key not in self._made:
            # Tables outlive the call that happens to need them first: they must belong to no transform and no inference
            # mode.
            with torch.inference_mode(False), torch.no_grad(), temporarily_clear_interpreter_stack():
                self._made[key] = self._build(name, self.subject, dtype, device)
        return self._made[key]

    def __deepcopy__(self, memo: dict[int, Any]) -> Store:
        return self  # tables are never changed, so copies of a module share them

    def __getstate__(self) -> dict[str, Any]:
        return {"subject": self.subject, "_build": self._build}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _made={})
        self._register()


_STORES: weakref.WeakValueDictionary[int, Store] = weakref.WeakValueDictionary()
_HANDLES = count()


def _prepare(handle: int, name: str, dtype: torch.dtype, device: torch.device) -> bool:
    _STORES[handle].build(name, dtype, device)
    return True


# What torch.compiler.assume_constant_result does, without loading the whole compiler for users who never compile.
_prepare._dynamo_marked_constant = True  # type: ignore[attr-defined]
