"""Errors and warnings that every package raises."""

from typing import Self


class InvalidInput(ValueError):  # noqa: N818 - the name is part of the public interface
    """An argument that cannot be used. The message names it, what is accepted, and what came.

    Raised before any work starts; nothing of the caller's has been changed. A package's own errors about its
    input (an infeasible problem, a formulation that cannot be certified) derive from this class.
    """

    @classmethod
    def argument(cls, name: str, *, expected: str, got: object) -> Self:
        """Build the error for the argument `name`.

        Parameters
        ----------
        name : str
            The argument as the caller spells it.
        expected : str
            What is accepted: "a 2-D array of finite numbers".
        got : object
            What came. A string stands as it is, anything else as its `repr`, cut at 200 characters.

        Returns
        -------
        InvalidInput
            With the message ``name: expected ..., got ...``.
        """
        text = got if isinstance(got, str) else repr(got)
        if len(text) > 200:
            text = text[:197] + "..."
        return cls(f"{name}: expected {expected}, got {text}")


class NotConvergedWarning(UserWarning):
    """An iterative method stopped before its tolerance; the result says so in `status`."""
