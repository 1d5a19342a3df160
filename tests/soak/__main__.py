# SPDX-License-Identifier: Apache-2.0
"""
``make soak``: three cleaners at once on one bucket, with a broker and an S3 server that fail under them.

Orphaned segments by the thousand lie in a bucket that versitygw serves; a real broker holds their metadata, and a living
topic of its own in the same bucket. While three processes clean, the S3 server is killed three times, the broker is restarted
twice, once after SIGKILL, and every so manyth request is throttled. Afterwards nothing of the orphans is left, storage and
metadata say the same, and every living object has the bytes that it had. Prints totals; exits non-zero on any difference.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from airflow_provider_rlmm.core.records.states import RemotePartitionDeleteState
from airflow_provider_rlmm.core.storage.layouts import AivenLayout
from airflow_provider_rlmm.core.storage.object_store import ObjectStoreRemoteStorageManager
from dev import tiering
from dev.broker import await_condition
from dev.s3 import BUCKET, VersityGateway, store_options
from dev.s3_proxy import S3Proxy
from dev.s3_tiering import S3Kafka
from tests.integration.cleaning import Cleaning
from tests.scrub import scrub
from tests.soak.orphans import Orphans, lay_orphans

ROOT = Path(__file__).parents[2]
KEY_PREFIX = "soak/kafka-"
LIVING, LIVING_PARTITIONS, LIVING_SEGMENTS = "living", 4, 10
CLEANERS = 3
THROTTLE_EVERY = 13
NOTICED = 20
"""A server that is down comes back when so many requests have met nobody: more than what is tried again by itself."""
TIMEOUT_S = 1800.0
BEGUN = time.monotonic()


def say(line: str) -> None:
    sys.stdout.write(f"[{time.monotonic() - BEGUN:6.1f} s] {line}\n")
    sys.stdout.flush()


class Soak:
    """The servers, and what is done to them while the cleaners work."""

    def __init__(self, kafka: S3Kafka, server: VersityGateway, proxy: S3Proxy) -> None:
        self.kafka, self.server, self.proxy = kafka, server, proxy
        self.cleaners: list[subprocess.Popen[str]] = []
        self.disturbances: list[tuple[float, str, Callable[[], None]]] = [
            (0.85, "the S3 server is killed", self.kill_server),
            (0.7, "the broker is restarted", kafka.restart),
            (0.55, "the S3 server is killed", self.kill_server),
            (0.4, "the broker is killed", self.kill_broker),
            (0.25, "the S3 server is killed", self.kill_server),
        ]

    def kill_server(self) -> None:
        before = self.proxy.refused
        self.server.kill()
        await_condition(lambda: self.proxy.refused >= before + NOTICED or self.ended(), "somebody meets nobody", 300)
        self.server.start()

    def kill_broker(self) -> None:
        self.kafka.kill()
        self.kafka.start()

    def ended(self) -> bool:
        return all(cleaner.poll() is not None for cleaner in self.cleaners)

    def storage(self) -> ObjectStoreRemoteStorageManager:
        options = store_options(self.proxy.endpoint)
        return ObjectStoreRemoteStorageManager(f"s3://{BUCKET}", AivenLayout(KEY_PREFIX), options=options)

    @contextmanager
    def running_cleaners(self) -> Iterator[None]:
        """Run the cleaners; whichever is left at the end of the block is killed."""
        for number in range(CLEANERS):
            words = (
                self.kafka.bootstrap_servers, self.kafka.cluster_id, str(self.kafka.remote_dir), self.proxy.endpoint,
                KEY_PREFIX, str(2 * number),
            )  # fmt: skip
            command = [sys.executable, "-m", "tests.soak.cleaner", *words]
            self.cleaners.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        try:
            yield
        finally:
            for cleaner in self.cleaners:
                cleaner.kill()

    def disturb(self, orphans: Orphans) -> int:
        """Wait for the cleaners, and disturb them at one share of the objects after the other; return how often."""
        folder, done = self.server.bucket_folder, 0
        topics = {folder / "/".join(key.split("/")[:2]) for key in orphans.keys}
        while not self.ended():
            logs = sum(name.endswith(".log") for topic in topics for *_, names in os.walk(topic) for name in names)
            left = logs / orphans.segments
            if done < len(self.disturbances) and left <= self.disturbances[done][0]:
                _, what, disturb = self.disturbances[done]
                say(f"{left:.0%} of the segments are left: {what}")
                disturb()
                done += 1
            time.sleep(0.2)
        return done


def living_objects(soak: Soak) -> dict[str, str]:
    """Key → hash of what the living topic has in the bucket."""
    topic_id = tiering.topic_ids(soak.kafka)[LIVING]
    keys = tiering.remote_files(soak.kafka, topic_id)
    return {key: hashlib.sha256((soak.server.bucket_folder / key).read_bytes()).hexdigest() for key in keys}


def differences(soak: Soak, orphans: Orphans, living: dict[str, str], disturbed: int) -> Iterator[str]:
    """Say what is not as it should be."""
    if disturbed < len(soak.disturbances):
        yield f"{disturbed} of {len(soak.disturbances)} disturbances came before the end: take more segments"
    if not soak.proxy.throttled:
        yield "nothing was throttled"
    there = soak.kafka.remote_objects()
    if left := sorted(orphans.keys & there.keys()):
        yield f"{len(left)} objects of orphans are left, {left[:3]}"
    with Cleaning.of(soak.kafka, soak.storage()) as cleaning:
        for topic_id in {tip.topic_id for tip in orphans.tips}:
            if states := cleaning.segment_states(topic_id):
                yield f"segments of {topic_id} are not finished: {dict(states)}"
            found = Counter(cleaning.deletions(topic_id))
            if found.keys() != {RemotePartitionDeleteState.DELETE_PARTITION_FINISHED}:
                yield f"partitions of {topic_id} are not finished: {found}"
        if (again := cleaning.clean())["events"]:
            yield f"one more run found something to do: {again}"
    now = living_objects(soak)
    changed = [key for key, digest in living.items() if now.get(key) != digest]
    if changed:
        yield f"{len(changed)} objects of the living topic are gone or other ones: {sorted(changed)[:3]}"
    tiering.tiering_alive(soak.kafka, LIVING)
    yield from scrub(soak.kafka, layout=AivenLayout(KEY_PREFIX))


def reports_of(soak: Soak) -> Iterator[dict[str, Any]]:
    for number, cleaner in enumerate(soak.cleaners):
        assert cleaner.stdout is not None
        text = cleaner.stdout.read()
        if cleaner.wait() != 0 or not text:
            raise SystemExit(f"cleaner {number} ended with {cleaner.returncode}; its standard error says why")
        yield json.loads(text.splitlines()[-1])


def run(segments: int) -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rlmm-soak-")))
        server = stack.enter_context(VersityGateway(folder / "s3"))
        proxy = stack.enter_context(S3Proxy(server.port))
        kafka = stack.enter_context(
            S3Kafka(server, endpoint=proxy.endpoint, key_prefix=KEY_PREFIX, custom_metadata=["OBJECT_PREFIX"])
        )
        kafka.remote_dir.mkdir(exist_ok=True)
        tiering.create_tiered_topic(kafka, LIVING, LIVING_PARTITIONS)
        tiering.produce_until_remote(kafka, LIVING, LIVING_SEGMENTS)
        orphans = lay_orphans(kafka, server.bucket_folder, KEY_PREFIX, segments)
        soak = Soak(kafka, server, proxy)
        living = living_objects(soak)
        say(
            f"{segments:,} orphaned segments with {len(orphans.keys):,} objects, {len(living)} objects of a living topic"
        )
        proxy.throttle_every = THROTTLE_EVERY
        started = time.monotonic()
        with soak.running_cleaners():
            disturbed = soak.disturb(orphans)
            reports = list(reports_of(soak))
        seconds = time.monotonic() - started
        for number, report in enumerate(reports):
            say(f"cleaner {number}: {json.dumps(report)}")
        say(
            f"{segments:,} segments in {seconds:.0f} s; {proxy.passed:,} requests passed, {proxy.throttled:,} throttled, "
            f"{proxy.refused:,} met nobody; {disturbed} disturbances"
        )
        proxy.throttle_every = 0
        found = list(differences(soak, orphans, living, disturbed))
    for difference in found:
        say(f"DIFFERENCE: {difference}")
    say("FAILED" if found else "nothing is left, nothing living was touched, storage and metadata say the same")
    return 1 if found else 0


def main() -> int:
    """Run it; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=20_000)
    return run(parser.parse_args().segments)


if __name__ == "__main__":
    sys.exit(main())
