# SPDX-License-Identifier: Apache-2.0
"""What commands say of cost: by the storage class that the configuration names, and how to set a price where none is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.cli import orphaned
from airflow_provider_rlmm.cli.configuration import read_configuration, read_prices
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.plans.prices import StorageClass, StoragePrice
from airflow_provider_rlmm.overview.history import keep_run_summary
from airflow_provider_rlmm.overview.run_summary import Deleted
from tests.builders import Cluster
from tests.unit.cli.test_scrub_command import OPTIONS, happened  # noqa: F401  # a fixture
from tests.unit.cli.test_unseen import cluster, run  # noqa: F401  # a fixture
from tests.unit.overview.test_reclaimed import NOW, ms
from tests.unit.overview.test_reclaimed import run as ended

IA = '{"STANDARD_IA": {"per_gb_month": 1000, "per_1000_requests": "10"}, "STANDARD": {"per_gb_month": 1}}'
NONE_IS_SET = (
    'No cost is told, as no price is set: set RLMM_PRICES=\'{"STANDARD": {"per_gb_month": "0.023"}}\', or prices in '
    "the configuration file to the same."
)


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLMM_PRICES", IA)
    monkeypatch.setenv("RLMM_STORAGE_CLASS", "STANDARD_IA")


@pytest.mark.usefixtures("cluster", "priced")
@pytest.mark.parametrize(("command", "others"), [("orphans", {}), ("topics", {"alive": 122_070})])
def test_each_row_has_its_cost_a_month(
    command: str, others: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, command, "--json")
    rows = {row["topic"]: row for row in map(json.loads, out.splitlines())}
    # A segment of 1,000 bytes is paid for as 128 KiB, at 1,000 for 2^30 bytes.
    costs = {"gone": 244_141, "hidden": 610_352, **others}
    assert {name: row["month_micros"] for name, row in rows.items()} == costs
    _, out, _ = run(capsys, command)
    assert "a month" in out
    assert (
        "Costs are reckoned as STANDARD_IA, the storage class that the configuration names, at 1000 for 2^30 bytes"
        in out
    )
    assert "0.24" in out


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("command", ["orphans", "topics", "survey"])
def test_without_a_price_one_line_says_how_to_set_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, command)
    assert out.count(NONE_IS_SET) == 1
    assert "a month" not in out
    _, out, _ = run(capsys, command, "--json")
    assert '"month_micros": 0' not in out
    assert "No cost is told" not in out


@pytest.mark.usefixtures("cluster")
def test_a_class_without_a_price_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RLMM_PRICES", IA)
    monkeypatch.setenv("RLMM_STORAGE_CLASS", "GLACIER_IR")
    _, out, _ = run(capsys, "orphans")
    assert "No cost is told, as storage class 'GLACIER_IR' has no price: set RLMM_PRICES='{\"GLACIER_IR\":" in out


@pytest.mark.usefixtures("priced")
def test_a_survey_says_what_is_stored_costs_and_what_was_reclaimed_this_month(
    cluster: Cluster,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(orphaned, "system_clock", lambda: NOW)
    for day, month in ((30, 10), (3, 11)):
        keep_run_summary(str(tmp_path), ended(ms(day, month), 2**30, cluster_id="c", deleted=Deleted(1, 1, 2**30)))
    _, out, _ = run(capsys, "survey", "--work-dir", str(tmp_path))
    assert "orphaned: 7 segments, 6.8 KiB, 0.85 a month" in out
    assert "reclaimed this month: 1.0 GiB, 1,000.00 a month, by 1 run since 2026-11-01" in out
    _, out, _ = run(capsys, "survey", "--work-dir", str(tmp_path), "--json")
    document = json.loads(out)
    assert document["month_micros"]["orphaned"] == 854_492
    inventory = json.loads(Path(document["inventory"], "inventory.json").read_text())
    assert inventory["price"]["storage_class"]["name"] == "STANDARD_IA"


def test_a_scrub_says_what_each_class_costs(
    happened: list[str],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    from airflow_provider_rlmm.cli import main as command

    assert command.run([*OPTIONS, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["month_micros"] == {"IN_USE": 0, "FINISHED": 0}
    assert document["planned"]["early"] is None
    assert command.run(OPTIONS) == 0
    out = capsys.readouterr().out
    assert "Costs are reckoned at 0.023 for 2^30 bytes in a month for every storage class" in out
    assert "Cannot tell whether it costs to delete early: the configuration names no storage_class." in out


# --- the configuration ------------------------------------------------------------------------------------------------


def price_in(file: Path, text: str, **environment: str) -> StoragePrice | None:
    file.write_text(text)
    told = {"RLMM_CONFIG": str(file), "RLMM_BOOTSTRAP_SERVER": "a:1", **environment}
    settings = read_configuration({}, {}, environment=told).settings
    assert read_prices(environment=told).storage_price() == settings.storage_price()
    told["RLMM_CONFIG"] = str(file.with_name("another.toml"))
    assert read_prices(str(file), environment=told).storage_price() == settings.storage_price()
    return settings.storage_price()


def test_prices_are_a_table_of_the_file_or_the_text_of_one(tmp_path: Path) -> None:
    file = tmp_path / "rlmm.toml"
    expected = StoragePrice(12_500, StorageClass("STANDARD_IA", 30, 131_072, 10_000))
    table = '[prices.STANDARD_IA]\nper_gb_month = 0.0125\nper_1000_requests = "0.01"\n'
    assert price_in(file, table) == expected
    text = '{"STANDARD_IA": {"per_gb_month": "0.0125", "per_1000_requests": 0.01}}'
    assert price_in(file, f"prices = '{text}'\n") == expected
    assert price_in(file, "", RLMM_PRICES=text) == expected
    assert price_in(file, 'storage_class = "STANDARD"\n') is None


def test_what_is_no_price_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"prices\.STANDARD\.per_gb_month must be a number"):
        price_in(tmp_path / "rlmm.toml", '[prices.STANDARD]\nper_gb_month = "cheap"\n')
    with pytest.raises(ConfigurationError, match="name it in storage_class"):
        price_in(tmp_path / "rlmm.toml", "", RLMM_PRICES=IA)


def test_other_commands_need_no_broker_to_know_prices(tmp_path: Path) -> None:
    told: dict[str, Any] = {"RLMM_PRICES": '{"Hot": {"per_gb_month": 1}}', "XDG_CONFIG_HOME": str(tmp_path)}
    assert read_prices(environment=told).storage_price() == StoragePrice(1_000_000, StorageClass("Hot", 0))
