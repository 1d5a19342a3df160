# SPDX-License-Identifier: Apache-2.0
"""
Large answers: few at a time, and none that is not taken.

A client that asks for a file and reads it slowly, or not at all, keeps what is made of it in memory. So a user gets two of
these at a time and a process gives out four, and every answer is sent in small pieces, each of which is taken in time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from threading import Lock
from typing import Final

from fastapi import HTTPException, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_OF_A_USER: Final = 2
MAX_OF_THE_PROCESS: Final = 4
LARGE_BYTES: Final = 2**20
"""A document of more bytes makes a large answer, too."""

STALLED_S: Final = 60.0
"""An answer ends when nothing of it is taken for so long."""

LONGEST_S: Final = 600.0
"""An answer ends after so long, however much of it is taken."""

_PIECE_BYTES: Final = 65_536
_KEY: Final = "rlmm.answer"
_RETRY_AFTER_S: Final = 60


class HeavyAnswers:
    """How many large answers are under way, and whose."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._of_users: Counter[str] = Counter()

    def begin(self, user: str) -> None:
        """
        Count one more.

        :raises HTTPException: 429, if there are enough.
        """
        with self._lock:
            mine = self._of_users[user] >= MAX_OF_A_USER
            if mine or self._of_users.total() >= MAX_OF_THE_PROCESS:
                whose = f"of yours, {MAX_OF_A_USER}," if mine else f"of all users, {MAX_OF_THE_PROCESS},"
                raise HTTPException(
                    HTTPStatus.TOO_MANY_REQUESTS, f"as many large answers {whose} are under way as there may be",
                    {"Retry-After": str(_RETRY_AFTER_S)},
                )  # fmt: skip
            self._of_users[user] += 1

    def end(self, user: str) -> None:
        """Count one less."""
        with self._lock:
            self._of_users[user] -= 1
            self._of_users += Counter()  # without those that have none

    def under_way(self) -> dict[str, int]:
        """Return how many each user has."""
        with self._lock:
            return dict(self._of_users)


_answers = HeavyAnswers()


class _Answer:
    """One answer: whose it is once it is known to be a large one, and how long it may take."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._ends = time.monotonic() + LONGEST_S
        self.user: str | None = None

    async def send(self, message: Message) -> None:
        for part in _in_pieces(message):
            left = self._ends - time.monotonic()
            # Ended in the midst of an answer, the connection is closed, and the reader sees that it is not whole.
            async with asyncio.timeout(max(0.0, min(STALLED_S, left))):
                await self._send(part)

    def end(self) -> None:
        if self.user is not None:
            _answers.end(self.user)


def _in_pieces(message: Message) -> Iterator[Message]:
    body = message.get("body", b"")
    if message["type"] != "http.response.body" or len(body) <= _PIECE_BYTES:
        yield message
        return
    for start in range(0, len(body), _PIECE_BYTES):
        more = message.get("more_body", False) or start + _PIECE_BYTES < len(body)
        yield {**message, "body": body[start : start + _PIECE_BYTES], "more_body": more}


class BoundedAnswers:
    """Sends every answer in pieces, each within :data:`STALLED_S`, and counts the large ones until they have ended."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; what it is, ASGI says."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        try:
            await self._app({**scope, _KEY: answer}, receive, answer.send)
        finally:
            answer.end()


def begin_heavy_answer(request: Request, user: str) -> None:
    """
    Count the answer to a request as a large one, until it has been sent or has failed.

    :param request: the request.
    :param user: who made it.
    :raises HTTPException: 429, if enough of them are under way.
    """
    answer: _Answer = request.scope[_KEY]
    if answer.user is None:
        _answers.begin(user)
        answer.user = user
