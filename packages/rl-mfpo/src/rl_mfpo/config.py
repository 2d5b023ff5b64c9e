"""Every hyper-parameter in one frozen dataclass, checked when it is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Self

from lemmata_core import InvalidInput
from lemmata_core.check import in_range, one_of, positive_int

TIME_DISTRIBUTIONS = ("logit_normal", "split", "uniform")
VELOCITIES = ("adaptive", "gaussian", "policy")

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": {
        "hidden_sizes": (64, 64),
        "learning_rate": 1e-3,
        "temperature_lr": 3e-4,
        "init_temperature": 0.2,
        "learning_starts": 500,
        "batch_size": 128,
        "actor_batch_size": 64,
        "k_policy": 8,
        "k_gaussian": 16,
        "time_dist": "split",
        "data_proportion": 0.5,
    },
    "cpu": {
        "actor_batch_size": 64,
        "k_policy": 8,
        "k_gaussian": 16,
        "time_dist": "split",
        "data_proportion": 0.5,
    },
}


@dataclass(frozen=True)
class MFPOConfig:
    """Hyper-parameters of mean flow policy optimisation. The defaults are the paper's (arXiv 2604.14698).

    Attributes
    ----------
    learning_rate : float
        Of Adam, for what has no rate of its own.
    actor_lr, critic_lr, divergence_lr, temperature_lr : float, optional
        Rates of the velocity network, the critics, the average divergence network and log alpha.
    batch_size : int
        Transitions an update.
    buffer_size : int
        Transitions that the replay keeps.
    learning_starts : int
        Transitions of uniformly random actions before the first update.
    gamma : float
        Discount, in [0, 1].
    tau : float
        Share of the online critics that enters the target critics after each critic step, in (0, 1].
    n_sample_steps : int
        T, network evaluations an action.
    k_policy, k_gaussian : int
        K1 and K2, actions a state drawn from the policy and from the truncated Gaussian to estimate the velocity.
    actor_batch_size : int, optional
        States of the batch that serve the actor, the divergence and the temperature step; None: all.
    actor_delay : int
        Critic steps an actor step.
    gradient_steps : int
        Updates after each collection; -1: as many as transitions were collected.
    train_freq : int
        Environment (vector) steps a collection.
    n_div_probes : int
        Probes of Hutchinson's divergence estimate; with as many as action dimensions the trace is exact.
    div_probe : {"gaussian", "rademacher"}
    time_dist : {"logit_normal", "uniform", "split"}
        Law of the pairs (r, t); see `rl_mfpo.functional.sample_time_pairs`.
    data_proportion : float
        Share of the rows with r = t, in [0, 1].
    velocity : {"adaptive", "gaussian", "policy"}
        Which importance sampler estimates the target velocity; "adaptive" weighs both by their effective sample size.
    temperature : "auto" or float
        "auto" adapts alpha to `target_entropy`; a number > 0 fixes it.
    init_temperature : float
        First alpha where it is adapted.
    min_temperature : float
        Floor of the adapted alpha, in the units of Q, also of its first value; 0 (paper): none.
    entropy_estimator : {"adn", "change_of_variables"}
        Which entropy the temperature listens to: the average divergence network's (paper), or the exact one of
        the T-step sampler (at most 8 action dimensions).
    target_entropy : "auto" or float
        In nats, for actions scaled to [-1, 1]; "auto" is -0.5 times the number of action dimensions.
    min_ess : float, optional
        Q / alpha is tempered, row by row, until the effective sample sizes reach this, as far as they can; see
        `functional.estimate_velocity`. None (paper): never.
    critic : {"categorical", "scalar"}
        Categorical (C51) critics, or plain ones with a squared loss.
    v_min, v_max : float
        Ends of the categorical support, in units of the return.
    v_range : {"fixed", "from_rewards"}
        "from_rewards": the ends become +-max|r| / (1 - gamma) of the warm-up's rewards.
    n_atoms : int
        Atoms of the support.
    clipped_double_q : bool
        Whether the lower of the two critics counts, or their mean.
    backup_entropy : bool
        Whether the critics' target holds the entropy term.
    hidden_sizes : tuple of int
        Widths of the hidden layers of every network.
    n_candidates : int
        Actions from which evaluation takes the one that the target critics value most.
    divergence_steps : int
        Steps of the average divergence network an actor step; the paper takes one.
    compile : bool
        Whether `torch.compile` builds the critics' values of the proposals, most of an update (a minute, once).

    Raises
    ------
    InvalidInput
        Naming the field, what came and what is accepted.
    """

    learning_rate: float = 3e-4
    actor_lr: float | None = None
    critic_lr: float | None = None
    divergence_lr: float | None = None
    temperature_lr: float | None = None
    batch_size: int = 256
    buffer_size: int = 1_000_000
    learning_starts: int = 10_000
    gamma: float = 0.99
    tau: float = 0.005
    n_sample_steps: int = 2
    k_policy: int = 16
    k_gaussian: int = 32
    actor_batch_size: int | None = None
    actor_delay: int = 1
    gradient_steps: int = 1
    train_freq: int = 1
    n_div_probes: int = 2
    div_probe: str = "gaussian"
    time_dist: str = "logit_normal"
    data_proportion: float = 0.75
    velocity: str = "adaptive"
    temperature: str | float = "auto"
    init_temperature: float = 0.01
    min_temperature: float = 0.0
    entropy_estimator: str = "adn"
    target_entropy: str | float = "auto"
    min_ess: float | None = None
    critic: str = "categorical"
    v_min: float = -1600.0
    v_max: float = 1600.0
    v_range: str = "fixed"
    n_atoms: int = 101
    clipped_double_q: bool = True
    backup_entropy: bool = True
    hidden_sizes: tuple[int, ...] = (256, 256, 256)
    n_candidates: int = 10
    divergence_steps: int = 1
    compile: bool = False

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_choices()
        self._check_together()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_numbers(self) -> None:
        for name in (
            "batch_size", "buffer_size", "n_sample_steps", "k_policy", "k_gaussian", "actor_delay", "train_freq",
            "n_div_probes", "n_candidates", "divergence_steps",
        ):  # fmt: skip
            self._set(name, positive_int(getattr(self, name), name))
        self._set("learning_starts", positive_int(self.learning_starts, "learning_starts", minimum=0))
        self._set("n_atoms", positive_int(self.n_atoms, "n_atoms", minimum=2))
        if self.actor_batch_size is not None:
            size = positive_int(self.actor_batch_size, "actor_batch_size", maximum=self.batch_size)
            self._set("actor_batch_size", size)
        if self.gradient_steps != -1:
            self._set("gradient_steps", positive_int(self.gradient_steps, "gradient_steps"))
        for name in ("learning_rate", "actor_lr", "critic_lr", "divergence_lr", "temperature_lr", "init_temperature"):
            value = getattr(self, name)
            if value is not None or name in {"learning_rate", "init_temperature"}:
                self._set(name, in_range(value, name, 0.0, low_open=True))
        self._set("gamma", in_range(self.gamma, "gamma", 0.0, 1.0))
        self._set("tau", in_range(self.tau, "tau", 0.0, 1.0, low_open=True))
        self._set("data_proportion", in_range(self.data_proportion, "data_proportion", 0.0, 1.0))
        self._set("min_temperature", in_range(self.min_temperature, "min_temperature", 0.0))
        for name in ("v_min", "v_max"):
            self._set(name, in_range(getattr(self, name), name))
        if self.min_ess is not None:
            self._set("min_ess", in_range(self.min_ess, "min_ess", 1.0))

    def _check_choices(self) -> None:
        one_of(self.div_probe, "div_probe", ("gaussian", "rademacher"))
        one_of(self.time_dist, "time_dist", TIME_DISTRIBUTIONS)
        one_of(self.velocity, "velocity", VELOCITIES)
        one_of(self.entropy_estimator, "entropy_estimator", ("adn", "change_of_variables"))
        one_of(self.critic, "critic", ("categorical", "scalar"))
        one_of(self.v_range, "v_range", ("fixed", "from_rewards"))
        for name in ("clipped_double_q", "backup_entropy", "compile"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput.argument(name, expected="True or False", got=getattr(self, name))
        for name, low in (("temperature", 0.0), ("target_entropy", None)):
            value = getattr(self, name)
            if isinstance(value, str):
                if value != "auto":
                    raise InvalidInput.argument(name, expected='"auto" or a number', got=value)
            elif low is None:
                self._set(name, in_range(value, name))
            else:
                self._set(name, in_range(value, name, low, low_open=True))
        try:
            sizes = tuple(self.hidden_sizes)
        except TypeError as err:
            raise InvalidInput.argument("hidden_sizes", expected="a tuple of ints", got=self.hidden_sizes) from err
        if not sizes:
            raise InvalidInput.argument("hidden_sizes", expected="at least one width", got=sizes)
        self._set("hidden_sizes", tuple(positive_int(n, f"hidden_sizes[{i}]") for i, n in enumerate(sizes)))

    def _check_together(self) -> None:
        if not self.v_min < self.v_max:
            raise InvalidInput.argument("v_min, v_max", expected="v_min < v_max", got=f"{self.v_min}, {self.v_max}")
        if self.buffer_size < self.batch_size:
            expected = f"at least batch_size = {self.batch_size}"
            raise InvalidInput.argument("buffer_size", expected=expected, got=self.buffer_size)
        if self.learning_starts < self.batch_size:
            expected = f"at least batch_size = {self.batch_size}"
            raise InvalidInput.argument("learning_starts", expected=expected, got=self.learning_starts)
        if self.min_ess is not None and self.min_ess > min(self.k_policy, self.k_gaussian):
            expected = f"at most the smaller of k_policy and k_gaussian, {min(self.k_policy, self.k_gaussian)}"
            raise InvalidInput.argument("min_ess", expected=expected, got=self.min_ess)
        if self.v_range == "from_rewards" and self.gamma == 1.0:
            raise InvalidInput.argument("gamma", expected='a discount < 1 with v_range="from_rewards"', got=self.gamma)

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> Self:
        """The configuration of a name, with some fields changed.

        Parameters
        ----------
        name : {"paper", "small", "cpu"}
            "paper": the defaults. "small": two layers of 64, for toy tasks on a laptop. "cpu": the paper's networks,
            with fewer rows and proposals in the actor's step.
        **overrides
            Fields of this class.

        Raises
        ------
        InvalidInput
        """
        one_of(name, "preset", tuple(PRESETS))
        return cls(**{**PRESETS[name], **checked_names(overrides)})

    def override(self, **overrides: Any) -> Self:
        """A copy with some fields changed.

        Raises
        ------
        InvalidInput
            An unknown name: the message lists the nearest ones.
        """
        return dataclasses.replace(self, **checked_names(overrides))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values that JSON can hold (tuples as lists)."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(self).items()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """The configuration of `to_dict`.

        Raises
        ------
        InvalidInput
        """
        return cls(**checked_names(fields))

    def rate(self, part: str) -> float:
        """The learning rate of "actor", "critic", "divergence" or "temperature"."""
        own: float | None = getattr(self, f"{part}_lr")
        return self.learning_rate if own is None else own


def checked_names(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `overrides` if each key names a field of `MFPOConfig`.

    Raises
    ------
    InvalidInput
        Naming the key and the nearest fields.
    """
    names = [field.name for field in dataclasses.fields(MFPOConfig)]
    for key in overrides:
        if key not in names:
            near = get_close_matches(key, names, n=3, cutoff=0.4)
            hint = f"; the nearest are {', '.join(near)}" if near else ""
            raise InvalidInput.argument(key, expected=f"a field of MFPOConfig{hint}", got="an unknown name")
    return dict(overrides)
