# SPDX-License-Identifier: Apache-2.0
"""
``make matrix``, its first half: the wheel in an empty environment for each cell of Airflow × Python, without the lock file.

A cell that is run installs what a stranger's installer resolves, far from the checkout, and cleans what a real broker has
orphaned under a real scheduler. A cell that is only resolved asks uv whether there is a solution. Prints a table; exits
non-zero if a cell fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev import DEV_FOLDER, LIB_FOLDER, ensure_jars, ensure_spark_jars, spark_version
from tests.matrix.cells import BESIDES, Cell, cells

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow-provider-rlmm"


class CellFailedError(Exception):
    """A command of a cell failed; the message is the end of what it said."""


@dataclass(frozen=True)
class Result:
    """What became of a cell: ``run`` or ``resolved``, or the reason why it failed."""

    cell: Cell
    done: str
    airflow: str
    install_seconds: int | None = None
    seconds: dict[str, int] | None = None
    doctor: str = ""
    failure: str = ""


def main() -> int:
    """Run the matrix; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--cells", default="", help="such as 3.1/3.11,3.3/3.13: these alone")
    wanted = parser.parse_args().cells
    ensure_jars()
    ensure_spark_jars()
    uv = str(Path(sys.executable).with_name("uv"))
    only = set(wanted.split(",")) if wanted else None
    with tempfile.TemporaryDirectory(prefix="rlmm-matrix-") as folder:
        wheel = build_wheel(Path(folder) / "dist")
        results = []
        for cell in cells(uv):
            if only is None or f"{cell.airflow}/{cell.python}" in only:
                results.append(try_cell(cell, uv, wheel, Path(folder)))
                print(f"{cell}: {results[-1].failure or results[-1].done}", flush=True)
    print_table(results)
    return 1 if not results or any(result.failure for result in results) else 0


def build_wheel(dist: Path) -> Path:
    """Return the wheel as a user gets it: built from the source distribution, not from the checkout."""
    call([sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, ROOT])
    (wheel,) = dist.glob("*.whl")
    return wheel


def try_cell(cell: Cell, uv: str, wheel: Path, folder: Path) -> Result:
    """Run a cell, or resolve it; its environment is gone afterwards."""
    requirements = [f"{PACKAGE}[airflow,spark] @ {wheel.as_uri()}", f"apache-airflow=={cell.airflow}.*"]
    requirements += BESIDES.get(cell.airflow, ())
    # The connector that the tests have is of this one; an installer would take a newer one.
    requirements += [f"{name}=={spark_version()}" for name in ("pyspark", "pyspark-client")]
    place = folder / f"airflow-{cell.airflow}-python-{cell.python}"
    place.mkdir()
    try:
        return (
            run_cell(cell, uv, requirements, place) if cell.installer else resolve_cell(cell, uv, requirements, place)
        )
    except CellFailedError as failed:
        return Result(cell, "failed", "", failure=str(failed))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def resolve_cell(cell: Cell, uv: str, requirements: list[str], place: Path) -> Result:
    """Ask uv whether there is a solution."""
    wanted = place / "wanted.txt"
    wanted.write_text("\n".join(requirements))
    words = ["--no-config", "--no-header", "--no-annotate", "--quiet", "--python-version", cell.python]
    pins = dict(line.split("==") for line in call([uv, "pip", "compile", *words, wanted]).splitlines() if "==" in line)
    return Result(cell, f"resolved only ({cell.why_not_run})", pins["apache-airflow"])


def run_cell(cell: Cell, uv: str, requirements: list[str], place: Path) -> Result:
    """Install, then have the environment's Python do the main job."""
    started = time.monotonic()
    python = install(cell, uv, requirements, place / "environment")
    installed = round(time.monotonic() - started)
    home = place / "home"
    shutil.copytree(DEV_FOLDER, home / "dev", ignore=shutil.ignore_patterns("lib", "target", "__pycache__"))
    (home / "dev" / "lib").symlink_to(LIB_FOLDER)
    shutil.copy(Path(__file__).with_name("inside.py"), home)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
    env |= {"AIRFLOW_HOME": str(home / "airflow"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    env |= {"PATH": f"{python.parent}{os.pathsep}{env['PATH']}"}
    seen: dict[str, Any] = json.loads(call([python, home / "inside.py"], cwd=home, env=env).splitlines()[-1])
    print(f"{cell}: {seen['versions']}", flush=True)
    return Result(cell, "run", seen["versions"]["apache-airflow"], installed, seen["seconds"], seen["job"]["doctor"])


def install(cell: Cell, uv: str, requirements: list[str], environment: Path) -> Path:
    """Return the Python of a fresh environment with what was asked for."""
    python = environment / "bin" / "python"
    if cell.installer == "pip":
        call([str(cell.interpreter), "-m", "venv", "--upgrade-deps", environment])
        call([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements])
    else:
        call([uv, "venv", "--quiet", "--no-config", "--python", str(cell.interpreter), environment])
        call([uv, "pip", "install", "--quiet", "--no-config", "--python", python, *requirements])
    return python


def call(words: list[str | Path], **options: Any) -> str:
    """Run a command outside of the checkout, return what it printed."""
    options.setdefault("cwd", tempfile.gettempdir())
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-60:])
        raise CellFailedError(f"{' '.join(map(str, words[:4]))} … ended with {done.returncode}:\n{tail}")
    return done.stdout


def print_table(results: list[Result]) -> None:
    """Print one row for each cell."""
    print("\n| Airflow | Python | installed by | what | installation | provider | DAG files | main job | rlmm doctor |")
    print("|---|---|---|---|---|---|---|---|---|")
    for result in results:
        times = result.seconds or {}
        steps = [result.install_seconds, *(times.get(name) for name in ("provider", "parse", "job"))]
        columns = [result.airflow or result.cell.airflow, result.cell.python, result.cell.installer or "–", result.done]
        columns += ["–" if seconds is None else f"{seconds} s" for seconds in steps]
        print(f"| {' | '.join([*columns, result.doctor or '–'])} |")


if __name__ == "__main__":
    sys.exit(main())
