# SPDX-License-Identifier: Apache-2.0
"""
What this package packs for Aiven's plugin, read by the plugin that the tests give to their brokers.

That one reads what the real plugin's own classes have packed; so what it reads of ours the real one reads, too.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from airflow_provider_rlmm.core.storage.aiven_packing import AivenPacker, AivenPacking
from airflow_provider_rlmm.core.storage.in_memory import InMemoryRemoteStorageManager
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from dev.peers import SHORT_LIFE, peer_command
from tests.contracts.remote_storage import local_files, segment

GOLDEN = Path(__file__).parents[1] / "data" / "aiven" / "golden_segments.jsonl"
PACKED = 200
"""Segments that are packed, of random content, size and chunks."""
LAYOUT = AivenLayout()


def ask(manifest: bytes, log_object: bytes, log: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield questions about some ranges of a log, and the bytes that are the answer."""
    draw = random.Random(len(log))
    for _ in range(5):
        start = draw.randint(0, len(log) + 1)
        end = draw.choice([start, draw.randint(start, len(log) + 1), 2**31 - 2])
        words = (base64.b64encode(manifest).decode(), base64.b64encode(log_object).decode(), str(start), str(end))
        yield " ".join(words), log[start : end + 1]


def check(questions: list[tuple[str, bytes]]) -> None:
    command = peer_command("ManifestPeer", options=SHORT_LIFE)
    text = "".join(f"{question}\n" for question, _ in questions)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split("\n")[:-1] == [base64.b64encode(answer).decode() for _, answer in questions], done.stderr


def test_the_plugin_for_tests_reads_what_the_real_one_has_packed() -> None:
    questions = []
    for line in GOLDEN.read_text().splitlines():
        case = json.loads(line)
        stored: Mapping[str, str] = case["stored"]
        manifest = stored[".rsm-manifest"].encode()
        questions += ask(manifest, base64.b64decode(stored[".log"]), base64.b64decode(case["log"]))
    assert len(questions) == 60
    check(questions)


def test_the_plugin_for_tests_reads_what_this_package_packs(tmp_path: Path) -> None:
    draw, questions = random.Random(7), []
    data = local_files(tmp_path)
    for number in range(PACKED):
        size = draw.choice([1, 2, draw.randint(3, 400), draw.randint(1000, 60_000)])
        log = b"".join(bytes([draw.randrange(4)]) * draw.randint(1, 90) for _ in range(size))[:size]
        data.log_segment.write_bytes(log)
        metadata = replace(segment(number), segment_size_in_bytes=size)
        chunk_size = draw.choice([1 + size // draw.randint(1, 40), 4096, 4 * 2**20])
        manager = InMemoryRemoteStorageManager(LAYOUT)
        manager._packer = AivenPacker(LAYOUT, "", AivenPacking(chunk_size, draw.random() < 0.6))
        manager.copy_log_segment_data(metadata, data)
        stem = LAYOUT.segment_stem(metadata)
        manifest, log_object = (manager._objects[f"{stem}.{suffix}"][0] for suffix in ("rsm-manifest", "log"))
        questions += ask(manifest, log_object, log)
    check(questions)
