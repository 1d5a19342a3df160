# SPDX-License-Identifier: Apache-2.0
"""
Records ``docs/images/rlmm.svg``: the command ``rlmm`` from the first look to the deletion, on a real broker with orphans.

``python -m dev.recording`` makes it anew; what the picture shows is what the commands printed.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.text import Text

from dev import tiering
from dev.broker import LocalKafka
from dev.roots import expected_root_of

TARGET = Path(__file__).parents[1] / "docs" / "images" / "rlmm.svg"
COLUMNS = 128
COMMANDS = (
    "rlmm topics",
    "rlmm orphans",
    "rlmm clean",
    "rlmm clean --execute --cluster-id $CLUSTER_ID --override short_min_absence --min-absence-ms 0",
    "rlmm orphans",
    "rlmm trail payments 0",
)
# A page loads nothing from elsewhere; readers have a font of their own.
_WEB_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def main() -> None:
    """Record."""
    with LocalKafka() as kafka, tempfile.TemporaryDirectory(prefix="rlmm-recording-") as home:
        for topic in ("orders", "payments"):
            tiering.create_tiered_topic(kafka, topic, 2)
            tiering.produce_until_remote(kafka, topic, 3)
        tiering.provoke_scenario_b(kafka, "payments")
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": home,
            "RLMM_BOOTSTRAP_SERVER": kafka.bootstrap_servers,
            "RLMM_STORAGE_URI": kafka.remote_dir.as_uri(),
            "RLMM_EXPECTED_ROOT": expected_root_of(kafka.remote_dir),
            "CLUSTER_ID": kafka.cluster_id,
            "COLUMNS": str(COLUMNS),
            "FORCE_COLOR": "1",
        }
        console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
        for command in COMMANDS:
            console.print(Text(f"$ {command}", style="bold green"))
            console.print(Text.from_ansi(_said(command, environment, home)))
    TARGET.parent.mkdir(exist_ok=True)
    drawn = console.export_svg(title="rlmm", unique_id="rlmm")
    TARGET.write_text(_WEB_FONTS.sub("", drawn).replace("Fira Code,", "ui-monospace,"), "utf-8")


def _said(command: str, environment: Mapping[str, str], home: str) -> str:
    """Run a command and return what it prints, with the folder of its home as a reader has one."""
    line = command.replace("$CLUSTER_ID", shlex.quote(environment["CLUSTER_ID"]))
    done = subprocess.run(["bash", "-c", line], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.replace(home, "~").rstrip()


if __name__ == "__main__":
    main()
