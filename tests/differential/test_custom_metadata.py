# SPDX-License-Identifier: Apache-2.0
"""
Custom metadata as Aiven's plugin writes and reads them, by the plugin that the tests give to their brokers.

That one is compared with what was recorded of the real one, and this package's reader with that one.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import MalformedMetadataError
from airflow_provider_rlmm.core.storage.aiven_metadata import read_custom_metadata
from dev.peers import SHORT_LIFE, peer_command

GOLDEN = Path(__file__).parents[1] / "data" / "aiven" / "golden_custom_metadata.jsonl"
FIELDS = ("REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY")
BROKEN_COPIES = 100
ODD_TEXTS = 20_000
UNREADABLE = "!"


def golden_cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def ask(lines: Sequence[str]) -> list[str]:
    """Return the peer's answers, one to each line."""
    command = peer_command("CustomMetadataPeer", options=SHORT_LIFE)
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=True)
    answers = done.stdout.split("\n")[:-1]
    assert len(answers) == len(lines), done.stderr
    return answers


def words(values: dict[str, Any]) -> str:
    """Spell the three fields as the peer does."""
    return " ".join(str(values[name]).encode().hex() if name in values else "-" for name in FIELDS)


def test_the_plugin_for_tests_writes_the_bytes_of_the_real_one() -> None:
    cases = [case for case in golden_cases() if case["kind"] == "valid"]
    assert len({tuple(case["fields_included"]) for case in cases}) == 2 ** len(FIELDS)
    answers = ask([f"w {words(case['decoded'])}" for case in cases])
    assert answers == [case["custom_hex"] for case in cases]


def test_the_plugin_for_tests_reads_what_the_real_one_reads() -> None:
    cases = [case for case in golden_cases() if case["custom_hex"] is not None]
    expected = [UNREADABLE if "decode_error" in case else words(case["decoded"]) for case in cases]
    assert ask([f"r {case['custom_hex']}" for case in cases]) == expected


def broken_copies(draw: random.Random) -> Iterator[bytes]:
    for case in golden_cases():
        data = bytes.fromhex(case["custom_hex"] or "")
        for _ in range(BROKEN_COPIES if data else 0):
            copy = bytearray(data)
            for _ in range(draw.randint(1, 3)):
                copy[draw.randrange(min(len(copy), 12))] = draw.choice(
                    (0, 1, 2, 3, 0x7F, 0x80, 0xFF, draw.randrange(256))
                )
            yield bytes(copy[: draw.randint(1, len(copy))] if draw.random() < 0.3 else copy)


def odd_texts(draw: random.Random) -> Iterator[bytes]:
    """Prefixes of bytes at which decoders of UTF-8 part."""
    odd = (
        0x00,
        0x41,
        0x7F,
        0x80,
        0x8F,
        0x90,
        0x9F,
        0xA0,
        0xBF,
        0xC0,
        0xC2,
        0xDF,
        0xE0,
        0xED,
        0xEF,
        0xF0,
        0xF4,
        0xF5,
        0xFF,
    )
    for _ in range(ODD_TEXTS):
        text = bytes(draw.choice(odd) for _ in range(draw.randint(1, 6)))
        yield bytes((1, 1, len(text) + 1, len(text) + 1)) + text


def ours(data: bytes) -> str:
    try:
        found = read_custom_metadata(data)
    except MalformedMetadataError:
        return UNREADABLE
    values = (found.remote_size, found.object_prefix, found.object_key)
    return words({name: value for name, value in zip(FIELDS, values, strict=True) if value is not None})


@pytest.mark.timeout(300)
def test_this_package_reads_broken_bytes_as_kafkas_classes_do(differential_seed: int) -> None:
    draw = random.Random(differential_seed)
    copies = [*broken_copies(draw), *odd_texts(draw)]
    answers = ask([f"r {data.hex()}" for data in copies])
    assert UNREADABLE in answers
    differing = [
        (data.hex(), ours(data), theirs) for data, theirs in zip(copies, answers, strict=True) if ours(data) != theirs
    ]
    assert differing == []
