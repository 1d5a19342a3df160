# SPDX-License-Identifier: Apache-2.0
"""
The encrypted segments of a living topic: archived as they are, taken away, put back by the program of the page, and served.

The broker encrypts by the tests' plugin. It has no local segment and no index of them when it serves.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap

from airflow_provider_rlmm.core.records.records import TopicIdPartition, kafka_uuid_str
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from dev import tiering
from dev.s3 import BUCKET, MotoServer
from dev.s3_tiering import ENCRYPTED, ENCRYPTION_KEY, S3Kafka
from tests.integration.copying.adopting import Everything, await_all_remote, read_everything
from tests.integration.copying.world import living_topic
from tests.integration.copying.writing import Writer
from tests.integration.s3_environment import environment_of, login_of
from tests.scrub import scrub
from tests.unit.docs.pages import EXAMPLES

pytestmark = [pytest.mark.integration, pytest.mark.rare]

TOPIC = "orders"
PREFIX = "kafka/prod-"
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"properties": {**ENCRYPTED, "rsm.config.chunk.size": "4096"}},
    "zstd": {
        "properties": {**ENCRYPTED, "rsm.config.chunk.size": "1500", "rsm.config.compression.enabled": "true"},
        "custom_metadata": ("REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY"),
    },
}
OBJECTS = 3
"""Of a segment."""

(PUT_BACK,) = [e.text for e in EXAMPLES if e.page == "how-to/archive.md" and e.text.startswith("# put_back.py")]


@dataclass(frozen=True)
class World:
    """A broker that encrypts, a living topic in remote storage only, and what consumers read of it."""

    kafka: S3Kafka
    home: Path
    tip: TopicIdPartition
    before: Everything

    @property
    def topic_id(self) -> str:
        return kafka_uuid_str(self.tip.topic_id)

    def objects(self) -> dict[str, bytes]:
        """Return what lies in the bucket of the topic."""
        client = self.kafka.server.client
        keys = [key for key in self.kafka.remote_objects() if self.topic_id in key]
        return {key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}

    def rlmm(self, *arguments: str, code: int = 0, **settings: str) -> Any:
        done = self.run(
            str(Path(sys.executable).with_name("rlmm")),
            *arguments,
            "--topic-id", self.topic_id, "--json", "--archive", str(self.home / "archives"),
            RLMM_BOOTSTRAP_SERVER=self.kafka.bootstrap_servers, **environment_of(self.kafka), **settings,
        )  # fmt: skip
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout) if code == 0 else done.stderr

    def archive(self, code: int = 0) -> Any:
        return self.rlmm("archive", code=code, RLMM_ARCHIVE_ENCRYPTED="as_is")

    def put_back(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run the program of the page on the archive of the user partition."""
        program = self.home / "put_back.py"
        program.write_text(PUT_BACK)
        return self.run(sys.executable, str(program), folder.as_uri(), f"s3://{BUCKET}", **login_of(self.kafka))

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        own = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env=own | environment)

    def take_away(self, keys: Iterable[str]) -> None:
        """Take objects out of the bucket, and restart the broker without any index that it had fetched."""
        self.kafka.stop()
        shutil.rmtree(self.kafka.log_dir / "remote-log-index-cache")
        for key in keys:
            self.kafka.server.client.delete_object(Bucket=BUCKET, Key=key)
        self.kafka.start()


@contextmanager
def world_of(folder: Path, **settings: Any) -> Iterator[World]:
    """
    Have a broker copy a topic with transactions, and wait until the broker's own disk holds nothing of it.

    :param settings: of the broker.
    """
    with MotoServer(folder / "s3") as server, S3Kafka(server, key_prefix=PREFIX, **settings) as kafka:
        living_topic(kafka)
        topic_id = tiering.create_tiered_topic(kafka, TOPIC, 1, **{"index.interval.bytes": "1024"})
        writer = Writer(kafka.bootstrap_servers, TOPIC)
        writer.write(90)
        writer.commit(30)
        writer.abort(30)
        writer.write(30)
        before = read_everything(kafka, TOPIC)
        tip = TopicIdPartition(topic_id, TOPIC, 0)
        await_all_remote(kafka, tip)
        yield World(kafka, folder, tip, before)


def decrypted(log: bytes, manifest: bytes) -> bytes:
    """Return what the chunks of a log hold that are not compressed, by another library than the plugin's."""
    document = json.loads(manifest)
    encryption, index = document["encryption"], document["chunkIndex"]
    data_key = aes_key_unwrap(ENCRYPTION_KEY, base64.b64decode(encryption["dataKey"].removeprefix("k1:")))
    cipher, aad, size = AESGCM(data_key), base64.b64decode(encryption["aad"]), index["transformedChunkSize"]
    chunks = [log[at : at + size] for at in range(0, len(log), size)]
    found = b"".join(cipher.decrypt(chunk[:12], chunk[12:], aad) for chunk in chunks)
    assert (len(found), len(chunks[-1])) == (index["originalFileSize"], index["finalTransformedChunkSize"])
    return found


def check_encrypted(world: World, objects: Mapping[str, bytes], *, compressed: bool) -> None:
    """Check that no object shows a record, and that the brokers' key opens logs that do, if they are not compressed."""
    values = {value for _, _, _, value, _ in world.before["read_uncommitted"] if value}
    assert len(values) > 50
    assert not any(value in data for value in values for data in objects.values())
    if not compressed:
        stems = [key.removesuffix(".log") for key in objects if key.endswith(".log")]
        logs = [decrypted(objects[f"{stem}.log"], objects[f"{stem}.rsm-manifest"]) for stem in stems]
        assert all(any(value in log for log in logs) for value in values)


def check_archived(world: World, objects: Mapping[str, bytes]) -> Path:
    """Archive the topic, compare each file and what its manifest says with the bucket, and return the archive's folder."""
    assert "archive_encrypted = as_is" in world.rlmm("archive", code=1)
    (said,) = world.archive()["partitions"]
    assert said["as_is"] == said["segments"] == len(objects) / OBJECTS >= 4
    assert (said["not_whole"], said["records"]) == (0, 0)
    manifest = Path(said["manifest"])
    folder, segments = manifest.parents[1], json.loads(manifest.read_text())["segments"]
    files = {segment["keys"][kind]: file for segment in segments for kind, file in segment["files"].items()}
    assert {key: (folder / file["name"]).read_bytes() for key, file in files.items()} == objects
    assert {key: (file["bytes"], file["sha256"]) for key, file in files.items()} == {
        key: (len(data), hashlib.sha256(data).hexdigest()) for key, data in objects.items()
    }
    return folder


@contextmanager
def a_byte_flipped(path: Path) -> Iterator[None]:
    right = path.read_bytes()
    path.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    yield
    path.write_bytes(right)


@pytest.mark.parametrize("name", SETTINGS)
def test_encrypted_segments_are_archived_taken_away_put_back_and_served(tmp_path: Path, name: str) -> None:
    with world_of(tmp_path, **SETTINGS[name]) as world:
        kafka, objects = world.kafka, world.objects()
        check_encrypted(world, objects, compressed=name == "zstd")
        folder = check_archived(world, objects)

        tiering.create_tiered_topic(kafka, "restored", 1, **{"retention.ms": "-1"})
        refused = world.rlmm("restore", "--into", "restored", code=1)
        assert "archived segments are encrypted, and their keys are with the brokers" in refused
        assert "put each file back under the key that its manifest names" in refused

        # Without its objects the broker serves none of these records.
        world.take_away(objects)
        assert world.objects() == {}
        with pytest.raises(KafkaException):
            read_everything(kafka, TOPIC)
        assert f"there is no object {PREFIX}{TOPIC}-{world.topic_id}/0/" in kafka.log_path.read_text()

        # One wrong byte in the last file: nothing is put back.
        last = max((folder / "segments").glob("*.log"))
        with a_byte_flipped(last):
            noticed = world.put_back(folder)
            assert (noticed.returncode, world.objects()) == (1, {})
            assert f"{last.name} is not as it was archived: its checksum differs" in noticed.stderr

        done = world.put_back(folder)
        assert (done.returncode, done.stdout) == (0, f"{len(objects)} objects are in storage as they were archived\n")
        assert world.objects() == objects
        assert read_everything(kafka, TOPIC) == world.before

        # And who archives once more is told of it.
        with a_byte_flipped(last):
            assert "holds other bytes from before" in world.archive(code=1)
        assert scrub(kafka, layout=AivenLayout(PREFIX)) == []
        tiering.tiering_alive(kafka, "living")
