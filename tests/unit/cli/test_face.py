# SPDX-License-Identifier: Apache-2.0
"""How the terminal names settings: by its options, never as fields of an Airflow form."""

from __future__ import annotations

import io
import logging

import pytest

from airflow_provider_rlmm.cli import face
from airflow_provider_rlmm.cli import main as command
from airflow_provider_rlmm.cli.face import in_terminal, in_words_of
from airflow_provider_rlmm.core.base.errors import ConfigurationError
from airflow_provider_rlmm.core.base.given import parameters
from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import BlastRadius, check_cluster
from airflow_provider_rlmm.core.records.lost_records import HistoryGap

OPTIONS = {
    "former_key_prefixes": "--former-key-prefixes", "expected_cluster_id": "--cluster-id", "max_share": "--max-share",
    "min_absence": "--min-absence-ms", "expected_root": "--expected-root", "layout": "--layout",
    "confirm_lost_records": "--confirm-lost-records",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("add it to former_key_prefixes of the rlmm connection: it", "add it to --former-key-prefixes: it"),
        ("set expected_cluster_id in the rlmm connection; see", "give --cluster-id; see"),
        ("correct layout in the connection", "correct --layout"),
        ("the prices of the connection say no", "the prices in the configuration say no"),
        ("the storage class that the connection names", "the storage class that the configuration names"),
        ("it is none of the rlmm connection's, and", "it is none of the configuration's, and"),
        ("check the ACLs of the Kafka connection", "check the ACLs of --command-config"),
        ("60 % is more than max_share of 50 %", "60 % is more than --max-share of 50 %"),
        ("less than min_absence of 24 h", "less than --min-absence-ms of 24 h"),
        ("'prices' is unknown, allow_writes stays", "'prices' is unknown, allow_writes stays"),
        # A name is not a setting because it is spelled like one.
        ("topic max_share, 'max_share' and max_share-0 of /srv/max_share are left", None),
        ("set expected_root = s3://bucket in the rlmm connection", "set expected_root = s3://bucket in the configuration"),
        ("the connection was closed", None),
        ("as finished segments name and the connection does not", "as finished segments name and the configuration does not"),
    ],
)  # fmt: skip
def test_a_sentence_names_options(text: str, said: str | None) -> None:
    assert in_words_of(text, OPTIONS) == (text if said is None else said)


def test_of_two_ways_to_confirm_the_terminal_says_its_own() -> None:
    said = in_words_of(HistoryGap(3, 17, 19).what_to_do, OPTIONS)
    assert said.endswith(
        "say why once, by 'rlmm clean --execute --confirm-lost-records \"3@17-18=the marker of a transaction\"'"
    )
    assert "DAG" not in said


def test_where_no_command_runs_nothing_is_changed() -> None:
    assert in_terminal("max_share of the rlmm connection") == "max_share of the rlmm connection"


def test_errors_name_the_options_of_the_command_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigurationError, match="expected_cluster_id in the rlmm connection"):
        check_cluster("c", None, frozenset({"x"}))
    assert command.run(["plan", "--bootstrap-server", "a:1", "--max-share", "2"]) == 1
    said = capsys.readouterr().err
    assert "rlmm: --max-share must be" in said
    assert "connection" not in said
    assert in_terminal("max_share") == "max_share", "the next one speaks for itself"


def test_a_limit_is_raised_by_options_and_not_as_parameters_of_a_dag() -> None:
    remedy = BlastRadius(1, 1, 0.5).remedy(Count(9, 9), Count(10, 10))
    assert remedy.endswith('by the parameters "max_segments": 9, "max_bytes": 9, "max_share": 0.9 of the DAG')
    said = in_words_of(f"{remedy}.", OPTIONS)
    assert said.endswith("for one run by --max-segments 9 --max-bytes 9 --max-share 0.9.")


def test_lines_of_the_log_name_options_and_tracebacks_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, option in OPTIONS.items():
        monkeypatch.setitem(face._options, name, option)
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(command._InTerminal("%(message)s"))
    logger = logging.getLogger("rlmm of a test")
    logger.addHandler(handler)
    try:
        raise ValueError("max_share of the traceback")
    except ValueError:
        logger.warning("raise it by %s", parameters({"max_share": 0.6}), exc_info=True)
    finally:
        logger.removeHandler(handler)
    first, *others = lines.getvalue().splitlines()
    assert first == "raise it by --max-share 0.6"
    assert others[-1] == "ValueError: max_share of the traceback"
