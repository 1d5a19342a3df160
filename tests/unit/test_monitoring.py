# SPDX-License-Identifier: Apache-2.0
"""
``docs/metrics.md`` lists every metric. The example dashboard, alert rules and mapping speak of metrics and labels that are
sent, and of no others.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from airflow_provider_rlmm.core.base.metric import Metric
from airflow_provider_rlmm.core.segments import remote_log_metrics
from airflow_provider_rlmm.core.segments.metrics import RemoteLogMetric
from airflow_provider_rlmm.observability.stats import plain_name
from airflow_provider_rlmm.overview.run_metrics import METRICS, metrics_of
from airflow_provider_rlmm.overview.run_summary import RunOutcome
from dev import metrics_page
from tests.unit.overview.test_run_metrics import RUN

FOLDER = Path(__file__).parents[2] / "examples" / "monitoring"
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text())
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((FOLDER / "prometheus-rules.yml").read_text())["groups"] for rule in group["rules"]
]
MAPPINGS = yaml.safe_load((FOLDER / "statsd-mapping.yml").read_text())["mappings"]
PROMETHEUS = "airflow_rlmm_"


def test_the_page_lists_every_metric() -> None:
    text = metrics_page.PAGE.read_text()
    assert metrics_page.page() == text, "make it anew: python -m dev.metrics_page"
    assert all(f"`rlmm.{name}`" in text for name in [*METRICS, *remote_log_metrics.REMOTE_LOG_METRICS])


def test_metrics_of_remote_logs_have_kafkas_names() -> None:
    assert remote_log_metrics.REMOTE_LOG_METRICS.keys() == {metric.value for metric in RemoteLogMetric}


def expressions() -> list[tuple[str, str]]:
    found = [(rule["alert"], rule["expr"]) for rule in RULES]
    return found + [(panel["title"], t["expr"]) for panel in DASHBOARD["panels"] for t in panel["targets"]]


@pytest.mark.parametrize(("where", "expression"), expressions())
def test_an_expression_is_promql_over_metrics_and_labels_that_are_sent(where: str, expression: str) -> None:
    promql_parser.parse(expression.replace("$connection", "rlmm_default"))
    named = re.findall(rf"{PROMETHEUS}(\w+)", expression)
    assert named
    assert set(named) <= METRICS.keys()
    matched = {label for block in re.findall(r"\{(.*?)\}", expression) for label in re.findall(r"(\w+)\s*=", block)}
    grouped = {label.strip() for block in re.findall(r"\bby \((.*?)\)", expression) for label in block.split(",")}
    for name in named:
        assert matched | grouped <= set(METRICS[name].labels)


def test_texts_and_legends_name_labels_that_their_expression_keeps() -> None:
    shown = [(t["expr"], t["legendFormat"]) for panel in DASHBOARD["panels"] for t in panel["targets"]]
    shown += [(rule["expr"], " ".join(rule["annotations"].values()).replace("$labels.", "")) for rule in RULES]
    for expression, text in shown:
        kept = {label.strip() for block in re.findall(r"\bby \((.*?)\)", expression) for label in block.split(",")}
        assert set(re.findall(r"\{\{\s*([a-z]\w*)", text)) <= kept, text


def test_the_dashboard_shows_every_metric_of_a_cluster_and_every_panel_has_its_place() -> None:
    named = {name for _, expression in expressions() for name in re.findall(rf"{PROMETHEUS}(\w+)", expression)}
    assert {name for name, about in METRICS.items() if about.labels == ("connection",)} <= named
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    for index, place in enumerate(places):
        assert place["x"] + place["w"] <= 24
        for other in places[:index]:
            beside = place["x"] >= other["x"] + other["w"] or other["x"] >= place["x"] + place["w"]
            below = place["y"] >= other["y"] + other["h"] or other["y"] >= place["y"] + place["h"]
            assert beside or below
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def filled(template: str, found: re.Match[str]) -> str:
    return re.sub(r"\$(\d)", lambda group: found[int(group[1])], template)


def mapped(name: str) -> tuple[str, dict[str, str]]:
    """What statsd_exporter makes of a name: an asterisk stands for what is between two dots."""
    for mapping in MAPPINGS:
        found = re.fullmatch(mapping["match"].replace(".", r"\.").replace("*", "([^.]+)"), name)
        if found:
            return filled(mapping["name"], found), {k: filled(v, found) for k, v in mapping["labels"].items()}
    raise AssertionError(f"no mapping matches {name}")


@pytest.mark.parametrize("outcome", RunOutcome)
def test_the_mapping_makes_of_each_plain_name_the_metric_with_its_labels(outcome: RunOutcome) -> None:
    for metric in metrics_of(replace(RUN, outcome=outcome)):
        expected = (f"{PROMETHEUS}{metric.name}", dict(metric.labels))
        assert mapped(f"airflow.{plain_name(metric)}") == expected


@pytest.mark.parametrize("name", remote_log_metrics.REMOTE_LOG_METRICS)
def test_the_mapping_knows_that_reading_and_copying_are_told_by_topic(name: str) -> None:
    metric = Metric(name, 1, {"connection": "rlmm_default", "topic": "orders"})
    assert mapped(f"airflow.{plain_name(metric)}") == (f"{PROMETHEUS}{name}", dict(metric.labels))
