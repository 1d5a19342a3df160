# SPDX-License-Identifier: Apache-2.0
"""The cells of the matrix: who installs them, which can only be resolved, and where the interpreters are."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

AIRFLOWS = ("3.1", "3.2", "3.3")
PYTHONS = ("3.11", "3.12", "3.13")
INSTALLERS = ("pip", "uv")
"""They take turns, so that each installs every Airflow, and on every Python."""


BESIDES = {"3.2": ("fastapi<0.137",)}
"""What an Airflow needs to start: 3.2.2 takes FastAPI 0.165 and ends with it; this is the bound that 3.3.2 sets itself."""


@dataclass(frozen=True)
class Cell:
    """
    One combination.

    :param airflow: minor version of Airflow.
    :param python: minor version of Python.
    :param installer: ``pip`` or ``uv``; ``None``: nothing is installed, uv only resolves.
    :param interpreter: the Python, where there is one.
    :param why_not_run: why it is only resolved.
    """

    airflow: str
    python: str
    installer: str | None
    interpreter: Path | None
    why_not_run: str = ""

    def __str__(self) -> str:
        return f"Airflow {self.airflow}, Python {self.python}"


def cells(uv: str) -> Iterator[Cell]:
    """
    Yield every cell; one for which there is no interpreter is only resolved.

    :param uv: the command.
    """
    for number, (airflow, python) in enumerate(product(AIRFLOWS, PYTHONS)):
        interpreter = find_python(uv, python)
        if interpreter is None:
            yield Cell(airflow, python, None, None, f"there is no Python {python} here")
        else:
            yield Cell(airflow, python, INSTALLERS[number % len(INSTALLERS)], interpreter)


def find_python(uv: str, version: str) -> Path | None:
    """
    Find an interpreter: what uv knows, what the path has, what pyenv has installed. Nothing is downloaded.

    :param uv: the command.
    :param version: minor version.
    """
    command = [uv, "python", "find", "--no-config", "--no-project", "--system", "--no-python-downloads", version]
    known = subprocess.run(command, capture_output=True, text=True, check=False)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [known.stdout.strip(), shutil.which(f"python{version}") or ""]
    candidates += map(str, sorted(pyenv.glob(f"{version}.*/bin/python{version}"), reverse=True))
    return next((Path(found) for found in candidates if found and _is(found, version)), None)


def _is(interpreter: str, version: str) -> bool:
    """Whether it runs and can make environments: a shim of pyenv may do neither."""
    program = "import ensurepip, sys, venv; print('{}.{}'.format(*sys.version_info))"
    done = subprocess.run([interpreter, "-c", program], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version
