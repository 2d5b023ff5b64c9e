"""Results as plain values: what JSON can hold."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any


def plain(value: Any) -> Any:
    """Turn dataclasses, arrays, tensors, enums and paths into dicts, lists, numbers and strings.

    Parameters
    ----------
    value : object
        Dataclasses (fields only), mappings, sequences, sets, NumPy arrays and scalars, torch tensors, enums, paths and
        what JSON knows. NaN and infinity, which JSON does not know, become the strings "nan", "inf", "-inf".

    Returns
    -------
    object
        For `json.dumps(..., allow_nan=False)`.

    Raises
    ------
    TypeError
        For anything else.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str):
        # Half of a surrogate pair (a file name that is not UTF-8) can be written to no file.
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, (list, tuple, range)):
        return [plain(item) for item in value]
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "tolist"):  # NumPy arrays and scalars, torch tensors
        return plain(value.tolist())
    raise TypeError(f"cannot write a {type(value).__name__} as JSON")
