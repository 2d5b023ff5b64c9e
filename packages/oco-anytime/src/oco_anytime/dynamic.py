"""Dynamic regret: the comparator may move, and the learner need not know how far it will go."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, in_range, positive_int

from oco_anytime.domains.base import contiguous, vector
from oco_anytime.interface import reading_state
from oco_anytime.learner import AnytimeCOCO

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from oco_anytime.certificate import Certificate
    from oco_anytime.domains.base import Domain, Vector


class DynamicCOCO(AnytimeCOCO):
    """Experts of geometric step sizes on one gradient a round, mixed by exponential weights.

    Parameters
    ----------
    domain : Domain
    n_experts : int
        K, at least 2; 10 cover path lengths up to 2.6e5 diameters.
    path : None or "observed"
        None: adapts to every path length at once; the certificate of the run tells what was reached. ``"observed"``:
        the caller tells each round how far its comparator moved, the learner restarts whenever sqrt(1 + 2 P/D) doubles,
        and regret, violation and certificate have bounds in sqrt((1 + P) t).
    **options
        As `AnytimeCOCO`.

    Notes
    -----
    The paper's bounds adapt to the path length with no knowledge of its total [P]; its mechanism was not at hand, this
    one is [I/N]. Regret against any u_1, u_2, .., u_t feasible round by round, of path length P, is
    O(sqrt(D (D + 2 P) sum ||gradients||^2)). With ``path=None`` the certificate is useful only for the path lengths
    that occur: it grows without a limit that could be stated beforehand.
    """

    _compiled_loop = False

    def __init__(self, domain: Domain, *, n_experts: int = 10, path: str | None = None, **options: Any) -> None:
        given: Any = path
        if given is not None and not (isinstance(given, str) and given == "observed"):
            raise InvalidInput.argument("path", expected="None or 'observed'", got=path)
        super().__init__(domain, **options)
        from oco_anytime import experts

        self._e = experts
        self.n_experts = positive_int(n_experts, "n_experts", minimum=2)
        self.path = path
        self._grown = 1.0
        self._path_total = self._path_epoch = self._past = 0.0
        self._last: Vector | None = None
        self._settings |= {"n_experts": self.n_experts, "path": path}
        self._kappa = 2.0 ** np.arange(self.n_experts) / math.sqrt(2.0)
        self._rescale()
        self._Y = np.tile(self._x, (self.n_experts, 1))
        self._L = np.zeros(self.n_experts)

    def _rescale(self) -> None:
        """The budget rule for experts [N]: the comparator's part costs cbar D sqrt(S) in place of sqrt2 D sqrt(S)."""
        k, s = self._k, self._grown
        self._cbar = 1.5 * s + 1.06 * math.sqrt(math.log(self.n_experts))
        self._cfg[k.C_CD] = self._cbar * self._cfg[k.C_D]
        self._cfg[k.C_LAM] = math.sqrt(2.0) / self._cbar
        self._s[k.REACH] = s * self._cfg[k.C_D]

    def update(
        self,
        cost_grad: ArrayLike,
        violation: ArrayLike = 0.0,
        violation_grad: ArrayLike | None = None,
        *,
        comparator: ArrayLike | None = None,
        path_increment: float | None = None,
    ) -> Self:
        """Take in the round; see `AnytimeCOCO.update`.

        Parameters
        ----------
        cost_grad, violation, violation_grad : array_like
            As `AnytimeCOCO.update`.
        comparator : array_like, shape (d,), optional
            u_t. With ``path="observed"`` it, or `path_increment`, is needed every round.
        path_increment : float, optional
            ||u_t - u_{t-1}||, not negative; that of the first round does not count.

        Returns
        -------
        DynamicCOCO
            Itself.
        """
        c = self._round.cost(cost_grad)
        v, a = self._round.constraint(violation, violation_grad)
        self._check_finite(c, v, a)
        moved, last = self._movement(comparator, path_increment)
        if self._tangent:
            c, a = self.domain._tangent(c), self.domain._tangent(a)
        kept = self._snapshot()
        try:
            if self._round.m != v.size and (v.size > 1 or a.shape[0]):
                self._know_rows(v.size)
            self._enter(moved)
            self._last = last
            new = np.empty_like(self._Y)
            if self._e.round_(*self._compiled_state(), self._x, c, v, a, self._Y, self._L, new):
                self._Y = self.domain._project_rows(new)
        except BaseException:
            self._restore(kept)
            raise
        x = np.empty(self.domain.dim)
        self._e.mix(self._cfg, self._s, self._Y, self._L, x)
        self._x, self._view = x, None
        self._after_rounds()
        return self

    def _movement(self, comparator: ArrayLike | None, increment: float | None) -> tuple[float, Vector | None]:
        """How far the comparator moved, and where it is now."""
        if comparator is not None:
            u = vector(comparator, "comparator", self.domain.dim).copy()
            return (0.0 if self._last is None else float(np.linalg.norm(u - self._last))), u
        if increment is not None:
            return in_range(increment, "path_increment", 0.0), self._last
        if self.path == "observed":
            raise InvalidInput.argument(
                "comparator", expected='u_t or path_increment, with path="observed"', got="None"
            )
        return 0.0, self._last

    def _enter(self, moved: float) -> None:
        """Count the movement; where s grows a new epoch begins before the round is processed."""
        k = self._k
        if self._s[k.T] == 0.0:
            return
        self._path_total += moved
        if self.path == "observed":
            wanted = math.sqrt(1.0 + 2.0 * self._path_total / self._cfg[k.C_D])
            if wanted > self._grown:
                self._past += self._epoch_bound()
                self._restart()
                self._grown = 2.0 ** math.ceil(math.log2(wanted))
                self._rescale()
                # a step between epochs lies in neither
                self._path_epoch = 0.0
                return
        self._path_epoch += moved

    def _restart(self) -> None:
        """A new epoch: bank the certificate, send every expert to x, forget the rest."""
        k, s = self._k, self._s
        s[k.BANK] += self._epoch_certificate(self._path_epoch)
        s[[k.TAU, k.H, k.E, k.W, k.ROOT_S, k.VE, k.NV]] = 0.0
        s[k.EPOCHS] += 1.0
        self._z[:], self._n[:], self._L[:], self._Y[:] = 0.0, 0.0, 0.0, self._x

    def _epoch_certificate(self, path: float) -> float:
        """min_i [(D/2 + P) sqrt H/kappa_i + kappa_i D E/2 - L_i] - W for the current epoch."""
        k, s, D = self._k, self._s, float(self._cfg[self._k.C_D])
        root = float(s[k.UNIT] * math.sqrt(s[k.H]))
        each = (0.5 * D + path) * root / self._kappa + (0.5 * D * float(s[k.E])) * self._kappa - self._L
        return float(each.min()) - float(s[k.W])

    def _epoch_bound(self) -> float:
        """The epoch's bound in units of Gf D: (sqrt2 cbar + 2 w0 s) sqrt(tau) + 2 (4 with learned scales)."""
        k, s = self._k, self._s
        known = bool(self._cfg[k.C_KNOWN]) and s[k.EXC] == 0
        rate = math.sqrt(2.0) * self._cbar + 2.0 * self._cfg[k.C_W0] * self._grown
        return float(rate * math.sqrt(s[k.TAU]) + (2.0 if known else 4.0) * self._z.size)

    def _bound(self) -> float | None:
        if super()._bound() is None or self._cfg[self._k.C_PENALTY] != self._k.P_BUDGETED:
            return None
        return float(self._s[self._k.GF] * self._cfg[self._k.C_D] * (self._past + self._epoch_bound()))

    def certificate(self, path_length: float | None = None) -> Certificate:
        """What is guaranteed so far.

        Parameters
        ----------
        path_length : float, optional
            P of the comparators to certify against; with ``path="observed"`` the path inside the current epoch. By
            default 0, or what was observed.

        Returns
        -------
        Certificate
            `regret_upper` [N]: banked epochs, plus min_i [(D/2 + P) sqrt H/kappa_i + kappa_i D E/2 - L_i] - W, for all
            sequences of that path length that satisfy each round's constraint. `regret_budget`: for ``path="observed"``
            its bound; for ``path=None`` that for P = 0.
        """
        if path_length is None:
            path = self._path_epoch if self.path == "observed" else 0.0
        else:
            path = in_range(path_length, "path_length", 0.0)
        upper = float(self._s[self._k.BANK]) + self._epoch_certificate(path)
        return replace(super().certificate(), regret_upper=upper)

    def _snapshot(self) -> tuple[Any, ...]:
        arrays = [b.copy() for b in (self._cfg, self._s, self._z, self._n, self._ccv, self._Y, self._L)]
        rest = (self._grown, self._cbar, self._path_total, self._path_epoch, self._past, self._last, self._round.m)
        return arrays, rest

    def _restore(self, kept: tuple[Any, ...]) -> None:
        self._cfg, self._s, self._z, self._n, self._ccv, self._Y, self._L = kept[0]
        self._grown, self._cbar, self._path_total, self._path_epoch, self._past, self._last, self._round.m = kept[1]

    def state_dict(self) -> dict[str, Any]:
        """The whole state: that of `AnytimeCOCO` with the experts ``Y`` (K, d), their losses ``L``, and the path."""
        state = super().state_dict()
        state.update(
            Y=self._Y.copy(),
            L=self._L.copy(),
            grown=self._grown,
            past=self._past,
            path_total=self._path_total,
            path_epoch=self._path_epoch,
            last=None if self._last is None else self._last.copy(),
        )
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> Self:
        """Take over a state; see `AnytimeCOCO.load_state_dict`."""
        with reading_state(self, self._settings, state):
            common = self._read(state)
            Y = array(state["Y"], "state['Y']", shape=(self.n_experts, self.domain.dim), copy=True)
            L = vector(state["L"], "state['L']", self.n_experts).copy()
            last = None if state["last"] is None else vector(state["last"], "state['last']", self.domain.dim).copy()
            names = ("grown", "past", "path_total", "path_epoch")
            grown, *path = (in_range(state[name], f"state[{name!r}]", 0.0) for name in names)
        self._take_over(*common)
        self._Y, self._L, self._last, self._grown = contiguous(Y), L, last, grown
        self._past, self._path_total, self._path_epoch = path
        self._rescale()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Without compiled code."""
        kept = super().__getstate__()
        kept["_e"] = None
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        super().__setstate__(kept)
        from oco_anytime import experts

        self._e = experts
