"""Which spaces a policy can act in, and the map between its box [-1, 1]^A and the environment's actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import gymnasium as gym
import numpy as np
from lemmata_core import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

FLATTEN = "gymnasium.wrappers.FlattenObservation makes it one"


@dataclass(frozen=True)
class ActionScale:
    """The affine bijection between [-1, 1]^A and the environment's action box.

    Parameters
    ----------
    low, high : numpy.ndarray
        Shape (A,), in the action space's own dtype; finite, ``low < high``.
    """

    low: NDArray[Any]
    high: NDArray[Any]

    def __post_init__(self) -> None:
        low, high = self.low.astype(np.float32), self.high.astype(np.float32)
        plain = self.low.dtype == np.float32
        object.__setattr__(self, "_low32", low)
        object.__setattr__(self, "_half32", (high - low) * np.float32(0.5))
        # Around zero the map is a product, which rounding cannot carry past a bound.
        object.__setattr__(self, "_symmetric", bool(plain and (low == -high).all()))

    @property
    def dim(self) -> int:
        """Number of action dimensions."""
        return int(self.low.shape[0])

    def to_env(self, unit: NDArray[np.float32]) -> NDArray[Any]:
        """Map actions from [-1, 1] into the box: ``low + (a + 1) / 2 * (high - low)`` in float32, then clipped.

        Parameters
        ----------
        unit : numpy.ndarray
            Shape (..., A), float32.

        Returns
        -------
        numpy.ndarray
            Shape (..., A) in the space's dtype, never outside its bounds: rounding may leave the affine map outside
            them.
        """
        if self._symmetric:  # type: ignore[attr-defined]
            symmetric: NDArray[Any] = unit * self.high
            return symmetric
        scaled: NDArray[Any] = (unit + np.float32(1.0)) * self._half32 + self._low32  # type: ignore[attr-defined]
        if self.low.dtype != np.float32:
            scaled = scaled.astype(self.low.dtype)
        # Half of what numpy.clip takes on one action.
        np.maximum(scaled, self.low, out=scaled)
        np.minimum(scaled, self.high, out=scaled)
        return scaled

    def to_unit(self, action: NDArray[Any]) -> NDArray[np.float32]:
        """Map the environment's actions, shape (..., A), into [-1, 1]: inverts `to_env` up to float32 rounding."""
        span = self.high.astype(np.float64) - self.low
        unit: NDArray[np.float64] = 2.0 * (np.asarray(action, dtype=np.float64) - self.low) / span - 1.0
        return unit.clip(-1.0, 1.0).astype(np.float32)


@dataclass(frozen=True)
class Spaces:
    """What a policy must know of its environment: the number of observation dimensions, and the action box."""

    obs_dim: int
    scale: ActionScale

    @classmethod
    def of(cls, env: Any) -> Self:
        """The spaces of a `gymnasium.vector.VectorEnv`, checked.

        Raises
        ------
        InvalidInput
        """
        return cls(check_observation_space(env.single_observation_space), check_action_space(env.single_action_space))

    def observations(self, observation: Any) -> NDArray[np.float32]:
        """What a user hands over as one observation (O,) or several (n, O), as float32.

        Raises
        ------
        InvalidInput
            For another shape, and what holds no real numbers.
        """
        try:
            obs = np.asarray(observation)
        except ValueError as err:
            raise InvalidInput.argument("observation", expected="an array", got=f"uneven rows ({err})") from err
        if obs.dtype != np.float32:
            obs = as_float32(obs)
        if obs.shape[-1:] != (self.obs_dim,) or obs.ndim > 2:
            expected = f"shape ({self.obs_dim},) or (n, {self.obs_dim})"
            raise InvalidInput.argument("observation", expected=expected, got=f"shape {obs.shape}")
        # torch warns of arrays that cannot be written to.
        return obs if obs.flags.writeable else obs.copy()

    def require_same(self, other: Spaces) -> None:
        """Raise `InvalidInput` unless a policy for these spaces acts in `other` too."""
        if self.obs_dim != other.obs_dim:
            got = f"{other.obs_dim} dimensions"
            raise InvalidInput.argument("env", expected=f"observations of {self.obs_dim} dimensions", got=got)
        low, high = self.scale.low, self.scale.high
        if not (np.array_equal(low, other.scale.low) and np.array_equal(high, other.scale.high)):
            got = f"{other.scale.low} to {other.scale.high}"
            raise InvalidInput.argument("env", expected=f"actions from {low} to {high}", got=got)


def check_observation_space(space: gym.Space[Any]) -> int:
    """Return the number of observation dimensions O.

    Parameters
    ----------
    space : gymnasium.Space
        A one-dimensional Box; its values are cast to float32, its bounds may be infinite.

    Raises
    ------
    InvalidInput
        For any other space; it names the wrapper that helps.
    """
    expected = "a one-dimensional Box"
    if not isinstance(space, gym.spaces.Box):
        raise InvalidInput.argument("observation_space", expected=expected, got=f"{_short(space)}: {FLATTEN}")
    if space.shape == () or 0 in space.shape:
        raise InvalidInput.argument(
            "observation_space", expected=f"{expected} with at least one dimension", got=_short(space)
        )
    if len(space.shape) >= 2 and space.dtype == np.uint8:
        got = f"images, {_short(space)}: encode them into a vector first, or (small ones) {FLATTEN}"
        raise InvalidInput.argument("observation_space", expected=expected, got=got)
    if len(space.shape) != 1:
        raise InvalidInput.argument("observation_space", expected=expected, got=f"{_short(space)}: {FLATTEN}")
    return int(space.shape[0])


def check_action_space(space: gym.Space[Any]) -> ActionScale:
    """Return the map onto the action box.

    Parameters
    ----------
    space : gymnasium.Space
        A one-dimensional Box of floats, bounded in every dimension.

    Raises
    ------
    InvalidInput
        For any other space; it names the dimensions that are unbounded or empty, and the wrapper that helps.
    """
    expected = "a one-dimensional bounded Box of floats (continuous control)"
    if not isinstance(space, gym.spaces.Box):
        hint = "; a policy of this package is continuous, use a method for discrete actions"
        if isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple)):
            hint = "; gymnasium.wrappers.TransformAction can join its parts into one Box"
        raise InvalidInput.argument("action_space", expected=expected, got=_short(space) + hint)
    if len(space.shape) != 1 or 0 in space.shape:
        hint = "; gymnasium.wrappers.TransformAction can reshape it into one dimension"
        raise InvalidInput.argument("action_space", expected=expected, got=_short(space) + hint)
    if space.dtype.kind != "f":
        raise InvalidInput.argument("action_space", expected=expected, got=f"{_short(space)} of {space.dtype}")
    low, high = space.low.copy(), space.high.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        span = high.astype(np.float32) - low.astype(np.float32)
    unbounded = ~(np.isfinite(low) & np.isfinite(high) & np.isfinite(span))
    if unbounded.any():
        hint = "bound it by wrappers.TransformAction (RescaleAction needs bounds, ClipAction takes them away)"
        got = f"{_short(space)}, unbounded in {_dimensions(unbounded)}: {hint}"
        raise InvalidInput.argument("action_space", expected=expected, got=got)
    empty = span <= 0
    if empty.any():
        got = f"{_short(space)}, without room (low >= high) in {_dimensions(empty)}: leave these out by TransformAction"
        raise InvalidInput.argument("action_space", expected=expected, got=got)
    return ActionScale(low, high)


def _short(space: gym.Space[Any]) -> str:
    text = repr(space)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _dimensions(mask: NDArray[np.bool_]) -> str:
    where = [str(i) for i in np.flatnonzero(mask)]
    shown = ", ".join(where[:6]) + (f", ... ({len(where)} in all)" if len(where) > 6 else "")
    return f"dimension{'s' if len(where) > 1 else ''} {shown}"


def as_float32(values: NDArray[Any]) -> NDArray[np.float32]:
    """Cast observations to float32.

    Raises
    ------
    InvalidInput
        For what holds no real numbers.
    """
    if values.dtype.kind not in "biuf":
        raise InvalidInput.argument("observation", expected="an array of real numbers", got=f"dtype {values.dtype}")
    with np.errstate(over="ignore"):
        return values.astype(np.float32)
