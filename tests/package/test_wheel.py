# SPDX-License-Identifier: Apache-2.0
"""The wheel in an environment of its own, far from the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hatchling.build
import pytest

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
HEAVY = {"pyspark", "confluent_kafka", "obstore", "pyarrow", "numpy", "pandas"}

WATCH = """
import json, sys
from pathlib import Path
opened = []
watched = {"socket.connect", "socket.getaddrinfo", "socket.sendto"}
sys.addaudithook(lambda event, args: opened.append(f"{event} {args}") if event in watched else None)
def heavy():
    return sorted({m.partition(".")[0] for m in sys.modules} & set(HEAVY))
""".replace("HEAVY", repr(HEAVY))

IMPORT = """
import airflow_provider_rlmm
print(json.dumps({"heavy": heavy(), "airflow": "airflow" in sys.modules, "opened": opened,
                  "file": airflow_provider_rlmm.__file__}))
"""

PARSE = """
from airflow.dag_processing.dagbag import DagBag
from airflow_provider_rlmm.resources import dags_folder, spark_job_path
bag = DagBag(dag_folder=dags_folder(), safe_mode=False)
found = {"errors": bag.import_errors, "dags": sorted(bag.dags), "heavy": heavy(), "opened": opened,
         "folder": dags_folder(), "job": spark_job_path("segment_retention.py"),
         "application": bag.dags["remote_log_retention"].get_task("evaluate").application}
from airflow_provider_rlmm.features.retention.spark.package import build_py_files
found["zip"] = str(build_py_files(Path.cwd() / "py"))
print(json.dumps(found))
"""

USE_ZIP = """
sys.path.insert(0, sys.argv[1])
import airflow_provider_rlmm.features.retention.spark.plan, airflow_provider_rlmm.features.retention.spark.source
import airflow_provider_rlmm.features.retention.spark.executor.metadata_partition
from airflow_provider_rlmm.core.records import columnar
print(json.dumps({"file": columnar.__file__, "airflow": "airflow" in sys.modules}))
"""


@dataclass(frozen=True)
class Installed:
    """An environment with everything of the lock file and the wheel, and the source distribution that this was built from."""

    wheel: Path
    python: Path
    home: Path
    sdist: Path

    @property
    def package(self) -> Path:
        (package,) = self.python.parents[1].glob("lib/python*/site-packages/airflow_provider_rlmm")
        return package

    def run(self, *command: str) -> str:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PYTHON"))}
        env |= {"AIRFLOW_HOME": str(self.home), "PATH": f"{self.python.parent}{os.pathsep}{env['PATH']}"}
        done = subprocess.run(
            [str(self.python), *command], cwd=self.home, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ask(self, program: str, *arguments: str) -> Any:
        """Run a program that prints one JSON document last."""
        return json.loads(self.run("-c", WATCH + program, *arguments).splitlines()[-1])


def uv() -> str:
    found = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    assert found is not None, "uv is missing: run make setup"
    return found


def run(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, built: Path) -> Installed:
    """The wheel as a user gets it."""
    folder = tmp_path_factory.mktemp("package")
    (wheel,), (sdist,) = (built.glob(kind) for kind in ("*.whl", "*.tar.gz"))
    python = folder / "venv" / "bin" / "python"
    run(uv(), "venv", "--quiet", "--python", sys.executable, folder / "venv")
    # What make setup has downloaded is linked from uv's cache.
    run(uv(), "pip", "sync", "--quiet", "--python", python, "--require-hashes", ROOT / "requirements.lock")
    run(uv(), "pip", "install", "--quiet", "--python", python, "--no-deps", "--offline", wheel)
    home = folder / "home"
    home.mkdir()
    return Installed(wheel, python, home, sdist)


def test_the_wheel_holds_the_package_with_dags_and_jobs_and_nothing_else(installed: Installed) -> None:
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    for folder in ("dags", "spark_jobs"):
        for file in (ROOT / folder).glob("*.py"):
            assert f"airflow_provider_rlmm/{folder}/{file.name}" in names
    for file in (ROOT / "airflow_provider_rlmm").rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            assert file.relative_to(ROOT).as_posix() in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"airflow_provider_rlmm"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_airflow_finds_the_provider(installed: Installed) -> None:
    listed = json.loads(installed.run("-m", "airflow", "providers", "list", "--output", "json"))
    assert [p["version"] for p in listed if p["package_name"] == "airflow-provider-rlmm"] == ["0.1.0"]


def test_importing_the_package_imports_nothing_else(installed: Installed) -> None:
    found = installed.ask(IMPORT)
    assert found == {
        "heavy": [],
        "airflow": False,
        "opened": [],
        "file": str(installed.package / "__init__.py"),
    }


def test_dags_and_job_are_found_in_the_installed_package(installed: Installed) -> None:
    found = installed.ask(PARSE)
    archive = found.pop("zip")
    job = str(installed.package / "spark_jobs" / "segment_retention.py")
    assert found == {
        "errors": {},
        "dags": [
            "remote_log_cleaner",
            "remote_log_contents",
            "remote_log_doctor",
            "remote_log_retention",
            "remote_storage_scrub",
        ],
        "heavy": [],
        "opened": [],
        "folder": str(installed.package / "dags"),
        "job": job,
        "application": job,
    }
    used = installed.ask(USE_ZIP, archive)
    assert used == {"file": f"{archive}/airflow_provider_rlmm/core/records/columnar.py", "airflow": False}
    assert "the metadata topic" in installed.run(job, "--help")


def test_an_editable_install_copies_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    wheel = hatchling.build.build_editable(str(tmp_path))
    with zipfile.ZipFile(tmp_path / wheel) as archive:
        copied = [name for name in archive.namelist() if ".dist-info/" not in name]
        (pth,) = copied
        assert archive.read(pth).decode().split() == [str(ROOT)]


CORE = """
import importlib
for name in (
    "airflow_provider_rlmm.core.records.columnar",
    "airflow_provider_rlmm.core.plans.plan",
    "airflow_provider_rlmm.core.log.write_guard",
    "airflow_provider_rlmm.core.log.kafka.event_log",
    "airflow_provider_rlmm.core.storage.object_store",
    "airflow_provider_rlmm.features.cleanup.cleaner",
    "airflow_provider_rlmm.features.scrub.comparison",
    "airflow_provider_rlmm.features.doctor.examine",
    "airflow_provider_rlmm.library.topic_based",
):
    importlib.import_module(name)
from airflow_provider_rlmm.core.storage.layouts import layout_named
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
root = Path.cwd() / "storage"
root.mkdir()
(root / "a-file").write_text("x")
storage = ObjectStoreRemoteStorageManager(root.as_uri(), layout_named("local-tiered-storage"))
try:
    import airflow_provider_rlmm.operators.cleaner
except ModuleNotFoundError as e:
    without = str(e)
print(json.dumps({"objects": [o.key for o in storage.list_objects()], "without": without,
                  "airflow": "airflow" in sys.modules, "spark": "pyspark" in sys.modules}))
"""


def test_the_core_works_without_airflow_and_spark(installed: Installed, tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    run(uv(), "venv", "--quiet", "--python", sys.executable, tmp_path / "venv")
    run(uv(), "pip", "install", "--quiet", "--no-config", "--python", python, installed.wheel)
    core = Installed(installed.wheel, python, tmp_path, installed.sdist)
    assert "rlmm orphans --bootstrap-server" in core.run(str(python.with_name("rlmm")), "--help")
    assert core.ask(CORE) == {
        "objects": ["a-file"],
        "without": "hooks, operators and pages of airflow-provider-rlmm need Airflow: "
        "pip install 'airflow-provider-rlmm[airflow]'",
        "airflow": False,
        "spark": False,
    }


def resolved_by_uv(wanted: str, folder: Path) -> dict[str, str]:
    (folder / "wanted.txt").write_text(f"{wanted}\n")
    command = [uv(), "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate", "wanted.txt"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(line.split("==") for line in done.stdout.splitlines() if "==" in line)


def resolved_by_pip(wanted: str, folder: Path) -> dict[str, str]:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    command += ["--report", "report.json", wanted]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "report.json").read_text())["install"]
    return {entry["metadata"]["name"].lower(): entry["metadata"]["version"] for entry in found}


@pytest.mark.parametrize("resolve", [resolved_by_uv, pytest.param(resolved_by_pip, marks=pytest.mark.rare)])
def test_what_a_stranger_resolves_has_spark_in_one_version(
    installed: Installed, tmp_path: Path, resolve: Callable[[str, Path], dict[str, str]]
) -> None:
    """Far from the checkout, whose own settings nobody has."""
    versions = resolve(f"airflow-provider-rlmm[airflow,spark] @ {installed.wheel.as_uri()}", tmp_path)
    assert versions["pyspark"] == versions["pyspark-client"]
    assert versions["pyspark"] == "4.2.0"
    assert versions["apache-airflow"].startswith("3.3.")


@pytest.mark.rare
def test_the_documentation_builds_from_the_source_distribution(installed: Installed, tmp_path: Path) -> None:
    with tarfile.open(installed.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    site = tmp_path / "site"
    installed.run("-m", "sphinx", "-q", "-W", "--keep-going", "-n", str(source / "docs"), str(site))
    pages = {page.relative_to(source / "docs").with_suffix(".html") for page in (source / "docs").rglob("*.md")}
    assert len(pages) > 20
    assert [str(page) for page in pages if not (site / page).is_file()] == []
