# SPDX-License-Identifier: Apache-2.0
"""The command init: the options that have worked, written into a configuration file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from airflow_provider_rlmm.cli.configuration import default_file
from airflow_provider_rlmm.cli.exit_codes import ExitCode
from airflow_provider_rlmm.cli.help import command
from airflow_provider_rlmm.cli.options import Invocation, with_storage
from airflow_provider_rlmm.cli.output import working
from airflow_provider_rlmm.cli.runs import open_session
from airflow_provider_rlmm.core.base.errors import ConfigurationError, RlmmError
from airflow_provider_rlmm.core.base.quoting import in_quotes, printable
from airflow_provider_rlmm.core.plans.guards import CleanerLimits
from airflow_provider_rlmm.core.storage.secret_texts import is_public_option

_SEEN_ONLY = ("expected_cluster_id", "expected_root")


@command("init")
@click.option("--output", "file", metavar="FILE", help="Where to write it.  [default: ~/.config/rlmm/config.toml]")
@with_storage
def init(invocation: Invocation, file: str | None) -> int:
    """
    Look at the cluster and the storage that the options name, and write the options into a configuration file.

    No secret is written: of options of the object store that may be one, the file names where to put it. The ids of the
    cluster and of the storage root are comments, with what was seen: compare them before you take the signs away.
    """
    path = Path(file).expanduser() if file else default_file(os.environ)
    if path.exists():
        raise ConfigurationError(
            f"{in_quotes(str(path))} is there already: nothing was written. Name another by --output"
        )
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
    return ExitCode.DONE if root or "storage_uri" not in given else ExitCode.NEEDS_A_PERSON


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
        if is_public_option(name):
            yield f"{name} = {json.dumps(value)}"
        else:
            yield f"# {printable(name)}: may be a secret. Put it into the environment, or here yourself"


def _write(path: Path, text: str) -> None:
    """Write a file that no other user may read, and replace none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


COMMANDS = (init,)
