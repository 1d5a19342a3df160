# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.examples import examples
from tests.moto_s3 import MotoS3, running_moto_s3
from tests.no_waiting import nothing_is_synced  # noqa: F401  # a fixture
from tests.object_store_server import ObjectStoreServer, running_object_store

# A busy machine makes one example of a hundred slow, and says nothing about the code.
settings.register_profile("any machine", deadline=None, max_examples=examples())
settings.load_profile("any machine")


@pytest.fixture
def object_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStoreServer]:
    """An object store that ``s3://`` URIs lead to."""
    with running_object_store() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[MotoS3]:
    """All of S3, that ``s3://`` URIs lead to."""
    with running_moto_s3() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server
