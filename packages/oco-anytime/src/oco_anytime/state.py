"""States as text: `state_dict()` to JSON and back without losing a bit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from lemmata_core import InvalidInput


def to_json(state: Mapping[str, Any]) -> str:
    """Write a state as JSON.

    Parameters
    ----------
    state : mapping
        From `state_dict`.

    Returns
    -------
    str
        Numbers stand in their shortest decimal form, which reads back to the same bits.
    """
    return json.dumps(_plain(state), allow_nan=False)


def from_json(text: str) -> dict[str, Any]:
    """Read what `to_json` wrote.

    Parameters
    ----------
    text : str

    Returns
    -------
    dict

    Raises
    ------
    InvalidInput
        If it is not the JSON of a state.
    """
    try:
        state = json.loads(text)
    except (TypeError, ValueError) as err:
        raise InvalidInput.argument("text", expected="JSON of a state", got=str(err)) from None
    if not isinstance(state, dict):
        raise InvalidInput.argument("text", expected="a JSON object", got=type(state).__name__)
    return state


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
