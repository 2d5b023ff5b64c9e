"""What can go wrong while a policy is trained."""

from __future__ import annotations

from collections.abc import Mapping


class TrainingDiverged(RuntimeError):  # noqa: N818 - reads as the event that it is
    """A loss is not finite. The networks are those before the step that would have spoilt them.

    Attributes
    ----------
    metrics : dict of str to float
        The metrics of the last update that was finite, and the loss that was not.
    """

    def __init__(self, message: str, metrics: Mapping[str, float] | None = None) -> None:
        super().__init__(message)
        self.metrics = dict(metrics or {})


class HealthWarning(UserWarning):
    """Training goes on, but a diagnostic says that its result should not be trusted as it is."""
