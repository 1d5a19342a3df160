# SPDX-License-Identifier: Apache-2.0
"""
Records what the command ``rlmm`` prints on a real broker, as pictures in ``docs/images``.

``python -m dev.recording`` makes them anew, with names only some of them: ``rlmm`` goes from the first look to the deletion,
``way-back`` from a damaged segment to the records of a cluster that is lost. What a picture shows is what was printed.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from airflow_provider_rlmm.core.records.records import kafka_uuid_str
from dev import tiering
from dev.broker import LocalKafka
from dev.roots import expected_root_of

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COLUMNS = 128
NEEDS_A_PERSON = 4
# A page loads nothing from elsewhere; readers have a font of their own.
_WEB_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


@dataclass
class Recording:
    """
    A terminal.

    :param kafka: the broker that commands ask.
    :param home: of who types.
    :param names: environment variable → value: as it stands in a command, and as the command has it.
    """

    kafka: LocalKafka
    home: str
    names: Mapping[str, str]
    console: Console = field(
        default_factory=lambda: Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    )

    def type(self, command: str, *, expected: int = 0) -> None:
        """
        Run a command; what it prints is in the picture.

        :param command: the command.
        :param expected: its exit code.
        """
        self.console.print(Text(f"$ {command}", style="bold green"))
        self.console.print(Text.from_ansi(self._said(command, expected)))

    def tell(self, happens: str) -> None:
        """
        Say what happens between two commands.

        :param happens: as a comment.
        """
        self.console.print(Text(f"\n# {happens}", style="dim"))

    def _said(self, command: str, expected: int) -> str:
        """Run a command and return what it prints, with the folder of its home as a reader has one."""
        line = command
        for name, value in self.names.items():
            line = line.replace(f"${name}", shlex.quote(value))
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": self.home,
            "RLMM_BOOTSTRAP_SERVER": self.kafka.bootstrap_servers,
            "RLMM_STORAGE_URI": self.kafka.remote_dir.as_uri(),
            "COLUMNS": str(COLUMNS),
            "FORCE_COLOR": "1",
            **self.names,
        }
        done = subprocess.run(["bash", "-c", line], env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != expected:
            raise RuntimeError(f"{command} ended with {done.returncode}, not {expected}: {done.stdout}")
        return done.stdout.replace(self.home, "~").rstrip()


def cleaning(kafka: LocalKafka, home: str) -> Recording:
    """Record the command from the first look to the deletion."""
    for topic in ("orders", "payments"):
        tiering.create_tiered_topic(kafka, topic, 2)
        tiering.produce_until_remote(kafka, topic, 3)
    tiering.provoke_scenario_b(kafka, "payments")
    names = {"CLUSTER_ID": kafka.cluster_id, "RLMM_EXPECTED_ROOT": expected_root_of(kafka.remote_dir)}
    recording = Recording(kafka, home, names)
    recording.type("rlmm topics")
    recording.type("rlmm orphans")
    recording.type("rlmm clean")
    recording.type("rlmm clean --execute --cluster-id $CLUSTER_ID --override short_min_absence --min-absence-ms 0")
    recording.type("rlmm orphans")
    recording.type("rlmm trail payments 0")
    return recording


def way_back(kafka: LocalKafka, home: str) -> Recording:
    """Record what is seen of a bit that flips in the storage, and what comes back when the cluster is lost."""
    tiering.create_tiered_topic(kafka, "orders", 2)
    tiering.produce_until_remote(kafka, "orders", 3)
    names = {
        "CLUSTER_ID": kafka.cluster_id,
        "TOPIC_ID": kafka_uuid_str(tiering.topic_ids(kafka)["orders"]),
        "RLMM_ALLOW_CATALOGUE": "orders",
    }
    recording = Recording(kafka, home, names)
    recording.type("rlmm verify")
    log = sorted(kafka.remote_dir.rglob("orders-1-*/*.log"))[1]
    data = bytearray(log.read_bytes())
    # In the value of a record: a checksum covers it.
    data[len(data) // 2 + 500] ^= 1
    log.write_bytes(data)
    recording.tell("a bit of a log flips in the storage")
    recording.type("rlmm verify", expected=NEEDS_A_PERSON)
    kafka.stop()
    recording.tell("the cluster is lost; its storage is there")
    recording.type("rlmm recover --cluster-id $CLUSTER_ID --prove --output ~/catalogue", expected=NEEDS_A_PERSON)
    recording.type(
        "rlmm read orders 0 --catalogue ~/catalogue --was-not-deleted $TOPIC_ID --output ~/orders",
    )
    return recording


PICTURES: Mapping[str, Callable[[LocalKafka, str], Recording]] = {"rlmm": cleaning, "way-back": way_back}
"""Name of a picture → what records it."""


def main() -> None:
    """Record."""
    parser = argparse.ArgumentParser(prog="python -m dev.recording", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PICTURE", help=f"some of {', '.join(PICTURES)}; all without one")
    wanted = parser.parse_args().names or list(PICTURES)
    if unknown := set(wanted) - PICTURES.keys():
        parser.error(f"there is no picture {', '.join(sorted(unknown))}")
    IMAGES.mkdir(exist_ok=True)
    for name in wanted:
        with LocalKafka() as kafka, tempfile.TemporaryDirectory(prefix="rlmm-recording-") as home:
            drawn = PICTURES[name](kafka, home).console.export_svg(title="rlmm", unique_id=name)
        shown = _WEB_FONTS.sub("", drawn).replace("Fira Code,", "ui-monospace,")
        (IMAGES / f"{name}.svg").write_text(shown, "utf-8")


if __name__ == "__main__":
    main()
