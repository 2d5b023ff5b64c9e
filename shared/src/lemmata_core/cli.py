"""The scaffold of every command line here: one-line errors, `--version`, `--json`."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from lemmata_core.errors import InvalidInput
from lemmata_core.plain import plain

__all__ = ["BAD_INPUT", "FAILED", "INTERRUPTED", "JsonOption", "app", "emit", "fail"]

# Exit codes of every command line; what a command's own answers add (refuted, no feasible sample) begins at 3.
FAILED = 1  # the work was done and its answer is no, or it met a defect of ours
BAD_INPUT = 2  # nothing was done: words, values or files that cannot be used
INTERRUPTED = 130  # 128 + SIGINT, as shells have it

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class _Group(TyperGroup):
    """Prints what went wrong as one line on stderr; usage and input errors end with exit code 2."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        debug = _take_debug(words)
        _never_fail_to_print()
        try:
            code = super().main(
                words,
                prog_name=prog_name,
                complete_var=complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except Exception as err:
            if not standalone_mode:
                raise
            _report(err, debug=debug)
        except KeyboardInterrupt:
            if not standalone_mode:
                raise
            print("error: interrupted", file=sys.stderr)  # noqa: T201
            sys.exit(INTERRUPTED)
        if not standalone_mode:
            return code
        if code == INTERRUPTED:
            print("error: interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(code if isinstance(code, int) else 0)


def _never_fail_to_print() -> None:
    # A terminal or a pipe in ASCII gets an escape for what it cannot show, not an error after minutes of work.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _take_debug(words: list[str]) -> bool:
    # --debug may stand anywhere before a bare --, so that it can be added at the end of a command that failed.
    end = words.index("--") if "--" in words else len(words)
    if "--debug" not in words[:end]:
        return False
    words[:end] = [word for word in words[:end] if word != "--debug"]
    return True


def _report(err: Exception, *, debug: bool) -> NoReturn:
    if isinstance(err, BrokenPipeError):
        # The reader of our output has gone: nothing is left to say, and the interpreter must not say it either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    if debug:
        traceback.print_exception(err)
    if type(err).__name__ == "NoArgsIsHelpError" and hasattr(err, "show"):
        err.show()
        sys.exit(BAD_INPUT)
    if isinstance(err, typer.Abort):
        message, code = "interrupted", INTERRUPTED
    elif hasattr(err, "format_message"):
        message, code = str(err.format_message()), int(getattr(err, "exit_code", BAD_INPUT))
    elif isinstance(err, InvalidInput):
        message, code = str(err), BAD_INPUT
    elif isinstance(err, OSError):
        place = f"{err.filename}: " if err.filename else ""
        message, code = f"{place}{err.strerror or err}", BAD_INPUT
    else:
        message, code = f"{type(err).__name__}: {err} (a defect of ours; --debug prints the traceback)", FAILED
    # typer 0.20 to 0.25 adds what may have been meant to a message to which click has added it already.
    line = re.sub(r"( Did you mean .+\?)\1$", r"\1", " ".join(message.split()))
    print(f"error: {line}", file=sys.stderr)  # noqa: T201
    sys.exit(code)


def app(name: str, help: str) -> typer.Typer:  # noqa: A002 - the field's word
    """Make a command line.

    Parameters
    ----------
    name : str
        The distribution, whose version ``--version`` prints.
    help : str
        One sentence for ``--help``.

    Returns
    -------
    typer.Typer
        With ``--version`` and ``--debug``; commands are added by its decorator. `InvalidInput`, usage errors and files
        that cannot be read or written end with one line on stderr and exit code 2, anything else with exit code 1;
        an interruption with 130.
    """
    made = typer.Typer(
        name=name, help=help, cls=_Group, no_args_is_help=True, add_completion=False, rich_markup_mode=None
    )

    def version(value: bool) -> None:
        if value:
            typer.echo(f"{name} {metadata.version(name)}")
            raise typer.Exit

    def options(version: bool = False, debug: bool = False) -> None:
        pass

    # typer resolves written annotations in the module, where `version` above is not known: hand them over as objects.
    options.__annotations__ = {
        "version": Annotated[
            bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version and exit.")
        ],
        "debug": Annotated[bool, typer.Option("--debug", help="Print tracebacks of errors.")],
        "return": None,
    }
    made.callback()(options)
    return made


def fail(message: str, code: int = BAD_INPUT) -> NoReturn:
    """Print ``error: message`` on stderr and end with `code`."""
    typer.echo("error: " + " ".join(message.split()), err=True)
    raise typer.Exit(code)


def emit(result: Any, *, as_json: bool = False) -> None:
    """Print a result dataclass (or a mapping, or a sequence of either).

    Parameters
    ----------
    result : object
    as_json : bool
        As one JSON document (NaN and infinity as strings); else one ``name: value`` line a field, long sequences cut.
    """
    data = plain(result)
    if as_json:
        typer.echo(json.dumps(data, indent=2, allow_nan=False))
    elif isinstance(data, dict):
        width = max((len(key) for key in data), default=0)
        for key, value in data.items():
            typer.echo(f"{key + ':':<{width + 1}} {_short(value)}")
    elif isinstance(data, list):
        for item in data:
            typer.echo(_short(item))
    else:
        typer.echo(_short(data))


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        head = ", ".join(_short(item) for item in value[:8])
        return f"[{head}, ... {len(value)} in all]" if len(value) > 8 else f"[{head}]"
    if isinstance(value, dict):
        return ", ".join(f"{key}={_short(item)}" for key, item in value.items())
    return str(value)
