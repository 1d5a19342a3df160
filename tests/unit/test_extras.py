# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from airflow_provider_rlmm import extras
from airflow_provider_rlmm.extras import AIRFLOW_RANGE, require_airflow
from airflow_provider_rlmm.provider_info import get_provider_info

ROOT = Path(__file__).parents[2]


def installed(monkeypatch: pytest.MonkeyPatch, core: str | None) -> None:
    def version(name: str) -> str:
        assert name == "apache-airflow-core"
        if core is None:
            raise PackageNotFoundError(name)
        return core

    monkeypatch.setattr(extras, "version", version)


@pytest.mark.parametrize("core", ["3.3.0", "3.3.2", "3.3.9rc1", None])
def test_a_tested_airflow_is_taken(monkeypatch: pytest.MonkeyPatch, core: str | None) -> None:
    installed(monkeypatch, core)
    require_airflow()
    assert get_provider_info()["package-name"] == "airflow-provider-rlmm"


@pytest.mark.parametrize("core", ["2.11.0", "3.2.9", "3.4.0", "3.4.0b1", "4.0", "unknown"])
def test_any_other_is_refused_in_a_line_when_the_provider_is_loaded(monkeypatch: pytest.MonkeyPatch, core: str) -> None:
    installed(monkeypatch, core)
    with pytest.raises(
        RuntimeError, match=rf"works with Apache Airflow >=3.3,<3.4, and {core} is installed"
    ) as refused:
        get_provider_info()
    assert "\n" not in str(refused.value)


def test_the_extra_has_the_same_range() -> None:
    (core,) = (d for d in extra("airflow") if d.startswith("apache-airflow>"))
    assert core == "apache-airflow>=" + ",<".join(".".join(map(str, bound)) for bound in AIRFLOW_RANGE)


def test_the_extra_can_take_both_of_sparks_packages_in_one_version_only() -> None:
    names = ("pyspark", "pyspark-client")
    pins = dict(d.split("==") for d in extra("spark") if d.startswith("pyspark"))
    assert (tuple(pins), len(set(pins.values()))) == (names, 1)


def extra(name: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: list[str] = project["optional-dependencies"][name]
    return found


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
