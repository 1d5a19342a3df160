# SPDX-License-Identifier: Apache-2.0
"""The command init: the options that have worked, written into a configuration file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from airflow_provider_rlmm.cli.configuration import OTHERS, default_file
from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import Invocation, with_storage
from airflow_provider_rlmm.cli.output import working
from airflow_provider_rlmm.cli.runs import open_session
from airflow_provider_rlmm.core.base.errors import ConfigurationError, RlmmError
from airflow_provider_rlmm.core.base.quoting import in_quotes, printable
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.runs.connection_fields import (
    ALLOW_WRITES,
    EXPECTED_CLUSTER_ID,
    EXPECTED_ROOT,
    KAFKA_CONN_ID,
    STORAGE_CONN_ID,
)
from airflow_provider_rlmm.core.storage.secret_texts import is_public_option

_SEEN_ONLY = (EXPECTED_CLUSTER_ID.name, EXPECTED_ROOT.name)


@command("init")
@click.option("--output", "file", metavar="FILE", help="Where to write it.  [default: ~/.config/rlmm/config.toml]")
@click.option(
    "--connections", metavar="FILE", help="Also write connections for Airflow here, for 'airflow connections import'."
)
@with_storage
def init(invocation: Invocation, file: str | None, connections: str | None) -> int:
    """
    Look at the cluster and the storage that the options name, and write the options into a configuration file.

    No secret is written: of options of the object store that may be one, the file names where to put it. The ids of the
    cluster and of the storage root are comments, with what was seen: compare them before you take the signs away. Airflow's
    connections hold them, and allow no writes: compare them before you allow some.
    """
    path = Path(file).expanduser() if file else default_file(os.environ)
    airflows = Path(connections).expanduser() if connections else None
    _refuse_if_there(path, "--output")
    if airflows is not None:
        _refuse_if_there(airflows, "--connections")
    given = invocation.given()
    with working() as shown, open_session(invocation, CleanerLimits(), shown) as session:
        cluster_id, root = session.cluster_id, ""
        if "storage_uri" in given:
            try:
                with session.topic() as topic:
                    root = session.prove_root(topic, CleanerLimits(), dry_run=True).check.to_paste
            except RlmmError as e:
                invocation.output.problem(f"needs a person: the storage root could not be seen: {e}")
    _write(path, "\n".join(_lines(given, invocation.store_options, cluster_id, root)) + "\n")
    invocation.output.note(f"Written: {path}. A real run takes it by name: rlmm clean --config {path} --execute")
    left = ""
    if airflows is not None:
        _write(airflows, json.dumps(_connections(given, cluster_id, root), indent=2) + "\n")
        invocation.output.note(f"Written: {airflows}. Airflow takes it by: airflow connections import {airflows}")
        left = _left_out(given, invocation.store_options)
        if left:
            invocation.output.problem(f"needs a person: {left}")
    is_whole = (bool(root) or "storage_uri" not in given) and not left
    return ExitCode.DONE if is_whole else ExitCode.NEEDS_A_PERSON


def _refuse_if_there(path: Path, option: str) -> None:
    if path.exists():
        raise ConfigurationError(
            f"{in_quotes(str(path))} is there already: nothing was written. Name another by {option}"
        )


def _connections(given: Mapping[str, str | bool], cluster_id: str, root: str) -> dict[str, Any]:
    """Return connections as Airflow imports them: of the cluster's brokers, and of its remote storage without any writes."""
    kafka_id, expected_root = str(KAFKA_CONN_ID.default), root.partition(" = ")[2]
    fields: dict[str, Any] = {KAFKA_CONN_ID.name: kafka_id}
    fields |= {name: value for name, value in given.items() if name not in (*OTHERS, *_SEEN_ONLY)}
    fields |= {EXPECTED_CLUSTER_ID.name: cluster_id}
    fields |= {EXPECTED_ROOT.name: expected_root} if root else {}
    fields[ALLOW_WRITES.name] = False
    brokers = {"bootstrap.servers": given.get("bootstrap_server", "")}
    return {
        kafka_id: {"conn_type": "kafka", "extra_dejson": brokers},
        "rlmm_default": {"conn_type": "rlmm", "extra_dejson": fields},
    }


def _left_out(given: Mapping[str, str | bool], store_options: Mapping[str, str]) -> str:
    """Say what connections lack that the command was given; empty where they lack nothing."""
    left = []
    if "command_config" in given:
        left.append(
            f"the connection {KAFKA_CONN_ID.default} has no login: put the properties of "
            f"{in_quotes(str(given['command_config']))} into its extra, as librdkafka names them"
        )
    if store_options:
        left.append(
            "the connection rlmm_default has no login to the object store: name a connection that has one by "
            f"{STORAGE_CONN_ID.name}, see docs/storage.md"
        )
    return "; ".join(left)


def _lines(
    given: Mapping[str, str | bool], store_options: Mapping[str, str], cluster_id: str, root: str
) -> Iterator[str]:
    yield "# Configuration of the command rlmm; every option of it may stand here. It holds no secret."
    for name, value in given.items():
        if name not in _SEEN_ONLY:
            yield f"{name} = {json.dumps(value)}"
    yield ""
    yield "# What was seen. Take the sign away where it is what a broker's properties (rsm.config.*) say, too: then every run"
    yield "# refuses another cluster, and another storage root."
    yield f"# expected_cluster_id = {json.dumps(cluster_id)}"
    name, _, value = root.partition(" = ")
    yield f"# {name} = {json.dumps(value)}" if root else "# expected_root could not be seen: see 'rlmm check'"
    if store_options:
        yield ""
        yield "[store]"
    for name, value in sorted(store_options.items()):
        if is_public_option(name, value):
            yield f"{name} = {json.dumps(value)}"
        else:
            yield f"# {printable(name)}: may be a secret. Put it into the environment, or here yourself"


def _write(path: Path, text: str) -> None:
    """Write a file that no other user may read, and replace none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


COMMANDS = (init,)
