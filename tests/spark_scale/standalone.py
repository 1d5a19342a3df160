# SPDX-License-Identifier: Apache-2.0
"""A standalone Spark cluster on this machine; its workers' Python has pyspark, pyarrow and numpy and nothing else."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import venv
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pyspark

from dev.broker import await_condition

ALL_THAT_WORKERS_HAVE = ("numpy", "numpy.libs", "py4j", "pyarrow", "pyarrow.libs", "pyspark")
WORKER_CORES = 1

_MASTER = re.compile(r"Starting Spark master at (spark://[\w.:-]+)")
_REST = re.compile(r"Started REST server for submitting applications on [\w.:-]+ with port (\d+)")
_REGISTERED = "Successfully registered with master"


def lean_python(folder: Path, also: Sequence[str] = ()) -> Path:
    """
    Make a Python with what executors need, the same versions as this one's.

    :param folder: where to.
    :param also: further packages, as they lie in this one's site-packages.
    :return: its executable.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    mine = Path(pyspark.__file__).parents[1]
    for name in (*ALL_THAT_WORKERS_HAVE, *also):
        if (mine / name).exists():
            (packages / name).symlink_to(mine / name)
    python = folder / "bin" / "python"
    looks = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    others = [
        name
        for name in ("airflow", "airflow_provider_rlmm", "confluent_kafka", "obstore", "pandas")
        if _is_here(name) and name not in also
    ]
    found = subprocess.run([python, "-I", "-c", looks, *others], capture_output=True, text=True, timeout=60, check=True)
    assert others
    assert found.stdout == "[]\n", "the workers' Python has more than it may"
    return python


def _is_here(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


class StandaloneSpark:
    """
    A master and two workers; as a context manager it is gone after the block.

    :param folder: for logs and the workers' files.
    :param python: what the workers run.
    :param rest: whether the master takes drivers by its REST server.
    """

    def __init__(self, folder: Path, python: Path, *, rest: bool = False) -> None:
        self.folder, self.python, self._rest = folder, python, rest
        self.rest_port = 0
        self._processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> StandaloneSpark:
        try:
            self._configure()
            anywhere = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            log = self._start("master", ["org.apache.spark.deploy.master.Master", *anywhere])
            self.url = await_condition(lambda: _found(_MASTER, log), "the master listens", 60)
            if self._rest:
                self.rest_port = int(
                    await_condition(lambda: _found(_REST, log), "the master's REST server listens", 60)
                )
            for number in range(2):
                name = f"worker-{number}"
                size = ("--cores", str(WORKER_CORES), "--memory", "3g", "--work-dir", str(self.folder / name))
                log = self._start(name, ["org.apache.spark.deploy.worker.Worker", *anywhere, *size, self.url])
                self.workers.append(self._processes[-1])
                await_condition(lambda log=log: _REGISTERED in log.read_text(), f"{name} is registered", 60)  # type: ignore[misc]
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _configure(self) -> None:
        rest = f"spark.master.rest.enabled {str(self._rest).lower()}\nspark.master.rest.port 0\n"
        (self.folder / "spark-defaults.conf").write_text(f"{rest}spark.ui.enabled false\n")

    def _start(self, name: str, command: Sequence[str]) -> Path:
        log = self.folder / f"{name}.log"
        home = Path(pyspark.__file__).parent
        # PYTHONPATH of the tests would lead the workers to the package.
        settings = {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(self.python),
            "PYTHONPATH": "",
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(self.folder),
        }
        with log.open("wb") as out:
            process = subprocess.Popen(
                [home / "bin" / "spark-class", *command],
                cwd=self.folder,
                env=os.environ | settings,
                stdout=out,
                stderr=out,
                # Its executors are in its group, and go with it.
                start_new_session=True,
            )
        self._processes.append(process)
        return log

    def kill(self, worker: int) -> None:
        """
        Kill a worker with its executors, as a lost machine would.

        :param worker: its number.
        """
        _end(self.workers[worker])

    def close(self) -> None:
        """End everything that was started here."""
        for process in reversed(self._processes):
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def _found(pattern: re.Pattern[str], log: Path) -> str:
    match = pattern.search(log.read_text())
    return match[1] if match else ""
