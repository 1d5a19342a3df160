# SPDX-License-Identifier: Apache-2.0
"""`rlmm verify` on what real brokers have copied: all of it is right, and damage that is planted in it is found."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_rlmm.cli.main import run
from dev.broker import LocalKafka
from dev.s3 import BUCKET, MotoServer, store_options
from dev.s3_tiering import S3Kafka
from tests.integration.reading.world import make_remote_log
from tests.segment_damage import flipped

pytestmark = [pytest.mark.integration, pytest.mark.rare]

PREFIX = "kafka/prod-"
COMPRESSED = {"rsm.config.chunk.size": "3000", "rsm.config.compression.enabled": "true"}


@dataclass
class Stored:
    """What a broker has copied, and how its objects are read and replaced."""

    options: list[str]
    keys: list[str]
    read: Callable[[str], bytes]
    write: Callable[[str, bytes], object]


@pytest.fixture(scope="module")
def in_a_folder() -> Iterator[Stored]:
    with LocalKafka() as kafka:
        make_remote_log(kafka, "contents")
        root = kafka.remote_dir
        yield Stored(
            [
                "--bootstrap-server",
                kafka.bootstrap_servers,
                "--storage",
                root.as_uri(),
                "--layout",
                "local-tiered-storage",
            ],
            [path.relative_to(root).as_posix() for path in sorted(root.rglob("contents-*/*"))],
            lambda key: (root / key).read_bytes(),
            lambda key, data: (root / key).write_bytes(data),
        )


@pytest.fixture(scope="module")
def packed_in_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    with (
        MotoServer(tmp_path_factory.mktemp("s3")) as server,
        S3Kafka(server, key_prefix=PREFIX, properties=COMPRESSED) as kafka,
    ):
        make_remote_log(kafka, "contents")
        found = server.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{PREFIX}contents-")["Contents"]
        storage = ["--storage", f"s3://{BUCKET}", "--layout", "aiven", "--key-prefix", PREFIX]
        given = [f"--store-option={name}={value}" for name, value in store_options(server.endpoint).items()]
        yield Stored(
            ["--bootstrap-server", kafka.bootstrap_servers, *storage, *given],
            sorted(one["Key"] for one in found),
            lambda key: server.client.get_object(Bucket=BUCKET, Key=key)["Body"].read(),
            lambda key, data: server.client.put_object(Bucket=BUCKET, Key=key, Body=data),
        )


@pytest.fixture(params=["in_a_folder", "packed_in_s3"])
def stored(request: pytest.FixtureRequest) -> Stored:
    found: Stored = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def verify(
    stored: Stored, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[], tuple[int, dict[str, Any]]]:
    monkeypatch.setenv("RLMM_WORK_URI", str(tmp_path / "work"))

    def verified() -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = run(["verify", "--topic", "contents", *stored.options, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return verified


def outcomes(report: dict[str, Any]) -> dict[str, int]:
    return {name: amount["segments"] for name, amount in report["outcomes"].items() if amount["segments"]}


def test_what_a_broker_copied_is_right_and_planted_damage_is_found(
    stored: Stored, verify: Callable[[], tuple[int, dict[str, Any]]]
) -> None:
    code, report = verify()
    assert (code, report["findings"], list(outcomes(report))) == (0, [], ["RIGHT"])
    segments = outcomes(report)["RIGHT"]
    assert segments > 10
    rng = random.Random("planted")
    damaged: dict[str, bytes] = {}
    logs = [key for key in stored.keys if key.endswith(".log")]
    for key in rng.sample(logs, 3):
        damaged[key] = stored.read(key)
        stored.write(key, flipped(damaged[key], rng.randrange(len(damaged[key]) // 2 * 8, len(damaged[key]) * 8)))
    cut = rng.choice([key for key in logs if key not in damaged])
    damaged[cut] = stored.read(cut)
    stored.write(cut, damaged[cut][:-7])
    first, second = rng.sample([key for key in logs if key not in damaged], 2)
    damaged |= {first: stored.read(first), second: stored.read(second)}
    stored.write(first, damaged[second])
    stored.write(second, damaged[first])
    try:
        code, report = verify()
    finally:
        for key, data in damaged.items():
            stored.write(key, data)
    assert (code, outcomes(report)) == (4, {"RIGHT": segments - 6, "DAMAGED": 6})
    named = {(segment["segment_id"], segment["start_offset"]) for segment in report["segments"]}
    # Each is the one whose object was changed: keys name offset and id.
    assert {f"{offset:020d}-{segment}" for segment, offset in named} == {
        key.rpartition("/")[2].removesuffix(".log") for key in damaged
    }
    assert verify()[0] == 0
