# SPDX-License-Identifier: Apache-2.0
"""The commands of ``docs/getting-started.md``, as a reader types them who has Python, Java and nothing else."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "getting-started.md"
YOUR_CLUSTER = "Your cluster"
IN_A_TERMINAL = "In a terminal"
IN_AIRFLOW = "In Airflow"


def section(title: str) -> str:
    """Return a section of the page."""
    parts = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE))
    return parts[title]


def blocks(title: str) -> list[str]:
    """Return the commands of a section of the page, block by block."""
    found: list[str] = re.findall(r"^```bash\n(.*?)^```$", section(title), re.DOTALL | re.MULTILINE)
    assert found, f"section {title!r} has no commands"
    return found


def exports(values: Mapping[str, str]) -> str:
    """Return what a reader writes in place of the first block, which names the cluster of an example."""
    (example,) = blocks(YOUR_CLUSTER)
    assert re.findall(r"^export (\w+)=", example, re.MULTILINE) == list(values)
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())


def follow(cluster: str, *sections: str, folder: Path, built: Path, **environment: str) -> str:
    """Do in one shell what the sections say; return what it prints."""
    script = [cluster, *(block for title in sections for block in blocks(title))]
    return type_in(script, folder=folder, built=built, **environment)


def build(folder: Path) -> Path:
    """
    Build the source distribution, and the wheel from it, not from the checkout.

    :param folder: where both go; it is returned.
    """
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def type_in(script: Sequence[str], *, folder: Path, built: Path, **environment: str) -> str:
    """
    Type commands into one shell that has a home of its own, Python, and what the machine has.

    :param script: the commands, block by block; the first that fails ends them.
    :param folder: where it is done.
    :param built: a folder with the wheel.
    :param environment: variables, besides.
    :return: what they print.
    """
    home = folder / "home"
    home.mkdir()
    python = folder / "bin"
    python.mkdir()
    (python / "python3").symlink_to(Path(sys.executable).resolve())
    usual = [p for p in os.environ["PATH"].split(os.pathsep) if Path(p) != Path(sys.executable).parent]
    env = {
        "PATH": os.pathsep.join([str(python), *usual]),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        # A mirror of the package index is the machine's business; that it has the wheel, too, is a release's.
        **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "JAVA_"))},
        "PIP_FIND_LINKS": str(built),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # Means that pip is to compile nothing: of what it installs the commands import a part.
        "PIP_NO_COMPILE": "0",
        **environment,
    }
    done = subprocess.run(
        ["bash", "-eux", "-o", "pipefail", "-c", "\n".join(script)],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-20_000:]}"
    return done.stdout
