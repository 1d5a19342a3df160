# SPDX-License-Identifier: Apache-2.0
"""Slow readers of large answers: how many there may be, what they cost, and how long they last."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient

from airflow_provider_rlmm.core.plans.counts import Count
from airflow_provider_rlmm.core.plans.guards import BlastRadius
from airflow_provider_rlmm.core.plans.plan import PlanSummary, Reason
from airflow_provider_rlmm.core.plans.plan_files import plan_schema, write_plan
from airflow_provider_rlmm.plugins import heavy_answers
from airflow_provider_rlmm.plugins.heavy_answers import BoundedAnswers, HeavyAnswers
from tests.unit.airflow.auth import Everybody, log_in, pages

ROWS, READERS, USERS = 200_000, 60, 30
PLAN = "remote_log_retention.manual__1"
STALLED_S = 4.0


def test_a_user_gets_two_and_all_users_get_four() -> None:
    answers = HeavyAnswers()
    for user in ("ada", "ada", "grace"):
        answers.begin(user)
    with pytest.raises(HTTPException) as refused:
        answers.begin("ada")
    assert (refused.value.status_code, refused.value.headers) == (429, {"Retry-After": "60"})
    answers.begin("alan")
    with pytest.raises(HTTPException, match="of all users, 4"):
        answers.begin("edsger")
    answers.end("ada")
    answers.begin("edsger")
    assert answers.under_way() == {"ada": 1, "grace": 1, "alan": 1, "edsger": 1}


def sent_by(body: bytes, send: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    asyncio.run(BoundedAnswers(app)({"type": "http"}, None, send))  # type: ignore[arg-type]


def test_an_answer_is_sent_in_pieces_that_are_the_whole() -> None:
    body, sent = os.urandom(300_000), []

    async def send(message: Any) -> None:
        sent.append(message)

    sent_by(body, send)
    assert sent[0]["type"] == "http.response.start"
    assert b"".join(message["body"] for message in sent[1:]) == body
    assert max(len(message["body"]) for message in sent[1:]) <= 65_536
    assert [message.get("more_body", False) for message in sent[1:]] == [True] * (len(sent) - 2) + [False]


@pytest.mark.parametrize(("limit", "pause_s"), [("STALLED_S", 2.0), ("LONGEST_S", 0.2)])
def test_an_answer_that_nobody_takes_ends(limit: str, pause_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy_answers, limit, 0.3)

    async def send(message: Any) -> None:
        await asyncio.sleep(pause_s)

    with pytest.raises(TimeoutError):
        sent_by(b"x" * 200_000, send)


def test_a_large_document_is_a_large_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path))
    for name, size in (("small", 10), ("large", heavy_answers.LARGE_BYTES)):
        folder = tmp_path / f"remote_log_cleaner.{name}"
        folder.mkdir()
        (folder / "report.json").write_text(json.dumps({"padding": "x" * size}))
    counted = HeavyAnswers()
    monkeypatch.setattr(heavy_answers, "_answers", counted)
    app = pages()
    log_in(app, monkeypatch, Everybody)
    with TestClient(app, raise_server_exceptions=False) as client:
        counted.begin("1")
        counted.begin("1")
        assert client.get("/reports/remote_log_cleaner.small/json").status_code == 200
        refused = client.get("/reports/remote_log_cleaner.large/json")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
        counted.end("1")
        for _ in range(3):
            assert client.get("/reports/remote_log_cleaner.large/json").status_code == 200
    assert counted.under_way() == {"1": 1}


# -- a server ----------------------------------------------------------------------------------------------------------------

PROGRAM = """
    import sys
    import pytest, socket, uvicorn
    import tests.airflow_home
    from types import SimpleNamespace
    from fastapi import Request
    from airflow.api_fastapi.core_api.security import get_user
    from airflow_provider_rlmm.plugins import heavy_answers, web
    from tests.unit.airflow.auth import Everybody, log_in

    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(heavy_answers, "STALLED_S", float(sys.argv[1]))
    app = web.create_app()
    log_in(app, monkeypatch, Everybody)

    def named(request: Request):
        name = request.headers.get("x-user", "nobody")
        return SimpleNamespace(get_name=lambda: name, get_id=lambda: name)

    app.dependency_overrides[get_user] = named
    bound = socket.create_server(("127.0.0.1", 0))
    print("PORT", bound.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([bound])
"""


@contextmanager
def server(work: Path) -> Iterator[tuple[psutil.Process, int]]:
    environment = {**os.environ, "AIRFLOW__RLMM__WORK_URI": str(work)}
    started = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(STALLED_S)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, env=environment, cwd=Path(__file__).parents[4],
    )  # fmt: skip
    try:
        assert started.stdout is not None
        line = next(line for line in started.stdout if line.startswith("PORT"))
        yield psutil.Process(started.pid), int(line.split()[1])
    finally:
        started.send_signal(signal.SIGKILL)
        started.wait()
        assert started.stdout is not None
        started.stdout.close()


def asked(port: int, path: str, user: str) -> socket.socket:
    """Ask, and take as little of the answer as a kernel lets one."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", port))
    connection.sendall(f"GET {path} HTTP/1.0\r\nHost: x\r\nX-User: {user}\r\n\r\n".encode())
    return connection


def status_of(connection: socket.socket) -> int:
    return int(connection.recv(12).split()[1])


def whole(connection: socket.socket) -> tuple[int, bytes]:
    with closing(connection), closing(HTTPResponse(connection)) as answer:
        answer.begin()
        return answer.status, answer.read()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A plan with many rows, in one row group, as it was written before there were smaller ones."""
    ids = pa.array([number.to_bytes(16) for number in range(ROWS)], pa.binary())
    size = 1_000
    columns = {
        "metadata_partition": 0, "topic_id": b"t" * 16, "topic": "orders", "partition": 3, "segment_id": ids, "state": 1,
        "start_offset": range(ROWS), "end_offset": range(ROWS), "max_timestamp_ms": range(ROWS), "event_timestamp_ms": 1,
        "segment_size_in_bytes": size, "reason": Reason.ORPHANED.value, "exact": True,
    }  # fmt: skip
    arrays = [
        values if isinstance(values, pa.Array) else pa.array(values, field.type) if isinstance(values, range)
        else pa.repeat(pa.scalar(values, field.type), ROWS)
        for field, values in zip(plan_schema(), (columns[name] for name in plan_schema().names), strict=True)
    ]  # fmt: skip
    count = Count(ROWS, ROWS * size)
    summary = PlanSummary(
        plan_id=PLAN, cluster_id="cluster-1", created_at_ms=1, expires_at_ms=2, read_until={0: 10**6}, known=count,
        by_reason={Reason.ORPHANED: count}, by_metadata_partition={0: count}, quarantined={}, unresolved=0,
    ).judged_by(BlastRadius(max_share=1.0))  # fmt: skip
    write_plan(str(tmp_path / PLAN), pa.table(arrays, plan_schema()), summary)
    return tmp_path


def test_slow_readers_of_a_plan_cost_little_and_hold_nobody_up(work: Path) -> None:
    path = f"/plans/{PLAN}/rows.csv"
    with server(work) as (process, port), ExitStack() as open_until_the_end:
        assert len(whole(asked(port, path, "ada"))[1].splitlines()) == ROWS + 1
        before = process.memory_info().rss
        readers = [asked(port, path, f"user-{number % USERS}") for number in range(READERS)]
        for reader in readers:
            open_until_the_end.enter_context(reader)
        statuses = Counter(map(status_of, readers))
        assert statuses == {200: 4, 429: READERS - 4}
        started = time.monotonic()
        assert whole(asked(port, f"/plans/{PLAN}/json", "grace"))[0] == 200
        assert time.monotonic() - started < 2
        assert process.memory_info().rss - before < 200 * 2**20
        # Nobody takes anything of the four, so they end, and others get theirs.
        deadline = time.monotonic() + 60
        while (answer := whole(asked(port, path, "grace")))[0] == 429:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert (answer[0], len(answer[1].splitlines())) == (200, ROWS + 1)
        assert process.memory_info().rss - before < 200 * 2**20
