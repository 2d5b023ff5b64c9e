"""An environment with nothing but Python in it, and what is installed there: what a newcomer starts with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

# What the environment holds: each distribution's name, and what it requires where it stands.
_LIST = """
import importlib.metadata as m, json
print(json.dumps({d.metadata["Name"]: d.requires or [] for d in m.distributions()}))
"""


class Failed(Exception):  # noqa: N818 - not an error of ours
    """A command ended with an error; the message has the end of its output."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment apart from the checkout's.

    Attributes
    ----------
    folder : pathlib.Path
        Where it lies.
    """

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Environment:
        """Make one with this process's Python and nothing else.

        Raises
        ------
        Failed
            Where uv cannot.
        """
        run(["uv", "venv", "--quiet", "--python", sys.executable, str(folder)], folder.parent)
        return cls(folder)

    @property
    def python(self) -> Path:
        """Its interpreter; commands that come with a distribution lie beside it."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def install(self, *words: str | Path) -> float:
        """Install requirements, wheels or folders.

        Parameters
        ----------
        *words : str or pathlib.Path
            For ``uv pip install``: what, and its options.

        Returns
        -------
        float
            Seconds that it took.

        Raises
        ------
        Failed
            With uv's own words.
        """
        # Without the settings of a checkout that may lie above: its pins are not the user's.
        command = ["uv", "pip", "install", "--quiet", "--no-config", "--python", self.python, *words]
        start = time.perf_counter()
        run([str(word) for word in command], self.folder.parent)
        return time.perf_counter() - start

    def distributions(self) -> dict[str, list[str]]:
        """What each installed distribution requires, by its name as it is written."""
        found: dict[str, list[str]] = json.loads(run([str(self.python), "-I", "-c", _LIST], self.folder.parent))
        return found


def run(command: list[str], folder: Path) -> str:
    """What a command prints, run apart from any environment that is active here.

    Raises
    ------
    Failed
        Where the command is not there, or ends with another exit code than 0.
    """
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    environment["LEMMATA_PROGRESS"] = "0"
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as err:
        raise Failed(f"{command[0]}: expected on the PATH, got none") from err
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        words = " ".join(Path(word).name if os.sep in word else word for word in command)
        raise Failed(f"{words}: exit code {done.returncode}\n{tail}")
    return done.stdout
