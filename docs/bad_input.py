"""Fill in the errors of bad-input.md by running its calls.

A section of the page is a package: blocks of ``python`` make the names, and each row of the table is a case: what is
wrong, the call, and the error that it gives. A new case needs only the first two; then::

    uv run python docs/bad_input.py
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

from lemmata_core import InvalidInput

PAGE = Path(__file__).with_name("bad-input.md")
_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (?P<what>[^|\n]+?) \| `(?P<call>[^`\n]+)` \|.*$", re.MULTILINE)
# Addresses differ from run to run.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def sections(page: str) -> Iterator[str]:
    """Split a page before each heading of a package."""
    return iter(re.split(r"^(?=## )", page, flags=re.MULTILINE))


def filled(section: str) -> str:
    """Return a section with the error of every call, as it is today.

    Raises
    ------
    AssertionError
        For a call that raises nothing, or what is no InvalidInput.
    """
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in _BLOCK.finditer(section):
            exec(block["code"], names)  # noqa: S102 - the page is ours
        return _ROW.sub(lambda row: f"| {row['what']} | `{row['call']}` | {_error(row['call'], names)} |", section)


def _error(call: str, names: dict[str, object]) -> str:
    try:
        exec(compile(call, "bad-input.md", "exec"), names)  # noqa: S102
    except InvalidInput as error:
        text = _ADDRESS.sub("", " ".join(str(error).split())).replace("|", "\\|")
        kind = "" if type(error) is InvalidInput else f"`{type(error).__name__}`: "
        ticks = "``" if "`" in text else "`"
        return f"{kind}{ticks}{text}{ticks}"
    except Exception as error:
        raise AssertionError(f"{call}: expected InvalidInput, got {error!r}") from error
    raise AssertionError(f"{call}: expected InvalidInput, got no error")


def main() -> None:
    """Write the page anew."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text("".join(map(filled, sections(page))), encoding="utf-8")


if __name__ == "__main__":
    main()
