# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import warnings
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from airflow_provider_rlmm.core.base import extras
from airflow_provider_rlmm.core.base.extras import AIRFLOW_RANGE, AIRFLOW_TESTED_BELOW, require_airflow
from airflow_provider_rlmm.provider_info import get_provider_info
from dev import spark_version
from tests.matrix.cells import AIRFLOWS, PYTHONS

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


def installed(monkeypatch: pytest.MonkeyPatch, core: str | None) -> None:
    def version(name: str) -> str:
        assert name == "apache-airflow-core"
        if core is None:
            raise PackageNotFoundError(name)
        return core

    monkeypatch.setattr(extras, "version", version)
    extras._warn_of_untested.cache_clear()


@pytest.mark.parametrize("core", ["3.1.0", "3.2.2", "3.3.9rc1", None])
def test_a_tested_airflow_is_taken(monkeypatch: pytest.MonkeyPatch, core: str | None) -> None:
    installed(monkeypatch, core)
    require_airflow()
    assert get_provider_info()["package-name"] == "airflow-provider-rlmm"


@pytest.mark.parametrize("core", ["3.4.0", "3.4.0b1", "3.10.2"])
def test_a_later_minor_version_is_loaded_and_warned_of_once(monkeypatch: pytest.MonkeyPatch, core: str) -> None:
    installed(monkeypatch, core)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        require_airflow()
        assert get_provider_info()["package-name"] == "airflow-provider-rlmm"
    (said,) = (str(warning.message) for warning in caught)
    assert f"tested with Apache Airflow >=3.1,<3.4, and {core} is installed" in said


@pytest.mark.parametrize("core", ["2.11.0", "3.0.6", "4.0", "4.0.0rc1", "unknown"])
def test_any_other_is_refused_in_a_line_when_the_provider_is_loaded(monkeypatch: pytest.MonkeyPatch, core: str) -> None:
    installed(monkeypatch, core)
    with pytest.raises(
        RuntimeError, match=rf"works with Apache Airflow >=3.1,<4.0, and {core} is installed"
    ) as refused:
        get_provider_info()
    assert "\n" not in str(refused.value)


def test_the_extra_has_the_same_range() -> None:
    (core,) = (d for d in extra("airflow") if d.startswith("apache-airflow>"))
    (major, first), above = AIRFLOW_RANGE
    assert (core, above) == (f"apache-airflow>={major}.{first},<{above[0]}", (major + 1, 0))


def test_what_is_not_warned_of_is_what_the_matrix_runs() -> None:
    (major, first), _ = AIRFLOW_RANGE
    tested_major, above = AIRFLOW_TESTED_BELOW
    assert tested_major == major
    assert tuple(f"{major}.{minor}" for minor in range(first, above)) == AIRFLOWS
    prefix = "Programming Language :: Python :: "
    assert tuple(c.removeprefix(prefix) for c in PROJECT["classifiers"] if c.startswith(prefix)) == PYTHONS
    minors = [int(version.removeprefix("3.")) for version in PYTHONS]
    assert PROJECT["requires-python"] == f">=3.{minors[0]},<3.{minors[-1] + 1}"


def test_the_extra_takes_both_of_sparks_packages_within_the_same_bounds() -> None:
    """An installer that takes the newest of each takes one version; where one was there first, require_pyspark looks."""
    bounds = {
        d.removeprefix(name)
        for name in ("pyspark", "pyspark-client")
        for d in extra("spark")
        if d.startswith(f"{name}>")
    }
    assert bounds == {">=4.0,<4.2.1"}
    assert sum(d.startswith("pyspark") for d in extra("spark")) == 2


def test_the_locked_pyspark_is_that_of_the_connector_that_tests_fetch() -> None:
    wanted = {f"{name}=={spark_version()}" for name in ("pyspark", "pyspark-client")}
    assert all(pin in PYPROJECT["dependency-groups"]["dev"] for pin in wanted)
    for lock in ("requirements.lock", "requirements-stores.lock"):
        lines = {line.partition(" ")[0] for line in (ROOT / lock).read_text().splitlines()}
        assert wanted <= lines, lock


def extra(name: str) -> list[str]:
    found: list[str] = PROJECT["optional-dependencies"][name]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "without", "said"),
    [
        ("hooks.metadata", "airflow", "need Airflow: pip install 'airflow-provider-rlmm[airflow]'"),
        ("operators.cleaner", "airflow", "need Airflow: pip install 'airflow-provider-rlmm[airflow]'"),
        ("plugins.rlmm_plugin", "airflow", "need Airflow: pip install 'airflow-provider-rlmm[airflow]'"),
        (
            "operators.retention",
            "airflow.providers.apache.spark.operators",
            "need Spark: pip install 'airflow-provider-rlmm[airflow,spark]'",
        ),
    ],
)
def test_what_is_not_there_is_named_in_a_line_with_its_extra(module: str, without: str, said: str) -> None:
    program = f"""
import sys
class Nobody:
    def find_spec(self, name, *more):
        if name == {without!r} or name.startswith({without + "."!r}):
            if name == "airflow":
                return None
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return None
sys.meta_path.insert(0, Nobody())
if {without!r} == "airflow":
    import importlib.util
    real = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *more: None if name == "airflow" else real(name, *more)
import airflow_provider_rlmm.{module}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("ModuleNotFoundError: ")
    assert said in last


OF_SPARK = {"operators/retention.py", "operators/spark_on_cluster.py", "operators/spark_readiness.py"}
WITHOUT_SPARK = """
import importlib, pkgutil, runpy, sys
# Where it is installed, Airflow asks it what it is.
SPARK = tuple(f"airflow.providers.apache.spark.{part}" for part in ("hooks", "operators", "decorators"))
class Nobody:
    def find_spec(self, name, *more):
        if name.partition(".")[0] in ("pyspark", "py4j") or name.startswith(SPARK):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Nobody())
for file in sys.argv[2:]:
    print(*(dag.dag_id for dag in runpy.run_path(file)["dags"]))
import airflow_provider_rlmm
for module in pkgutil.walk_packages(airflow_provider_rlmm.__path__, "airflow_provider_rlmm."):
    if not module.name.startswith(("airflow_provider_rlmm.features.retention.spark.", *sys.argv[1].split(","))):
        importlib.import_module(module.name)
print(sorted(name for name in sys.modules if name.startswith(("pyspark", *SPARK))))
"""


@pytest.mark.rare
@pytest.mark.slow
def test_what_deletes_orphans_needs_no_spark() -> None:
    """Neither when the DAG files are parsed, nor in what their tasks import later."""
    dags = [str(ROOT / "dags" / f"{name}.py") for name in ("remote_log_cleaner", "remote_storage_scrub")]
    modules = ",".join(
        f"airflow_provider_rlmm.{name.removesuffix('.py').replace('/', '.')}"
        for name in sorted({*OF_SPARK, "dag_factory/retention.py"})
    )
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, modules, *dags], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1:]) == (0, ["[]"]), done.stderr
    assert {"remote_log_cleaner", "remote_storage_scrub"} <= set(lines)


@pytest.mark.slow
def test_nothing_but_the_spark_job_and_its_operator_imports_spark_inside_a_function() -> None:
    package = ROOT / "airflow_provider_rlmm"
    imports = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if "spark" in (text := file.read_text())
        for node in ast.walk(ast.parse(text))
        for name in names_of(node)
        if name.partition(".")[0] == "pyspark"
        or name.startswith(("airflow.providers.apache.spark", f"{package.name}.features.retention.spark"))
    }
    # The command asks for the code that it packs for Spark, and for a task of it; others for how settings are written, and
    # for the document of what they come to. None of it imports Spark.
    without_spark = {"cli/spark.py", "cli/what_if.py", "dag_factory/retention.py", "operators/spark_what_if.py"}
    of_ones_own_jobs = {"data_frames.py"}
    found = {n for n in imports if not n.startswith("features/retention/spark/")}
    assert found == OF_SPARK | without_spark | of_ones_own_jobs


def names_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
