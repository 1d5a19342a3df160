# SPDX-License-Identifier: Apache-2.0
"""What is left of a bulk deletion is tried again, for its own reason, a bounded number of times."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Barrier, Lock

import pytest

from airflow_provider_rlmm.core.base.errors import StorageUnavailableError
from airflow_provider_rlmm.core.storage.answers import is_busy, key_of_refusal, status_of
from airflow_provider_rlmm.core.storage.bulk_delete import BulkDeletion, Refused
from airflow_provider_rlmm.core.storage.object_calls import DeleteCalls
from airflow_provider_rlmm.core.storage.pace import MOST_IN_A_ROW, Pace

KEYS = [f"topic/{n:04}.log" for n in range(2_500)]


class BulkStore:
    """Answers as S3 does: all other keys of a request are deleted, one of those refused is named."""

    at_once = 1

    def __init__(self, keys: Sequence[str], refused: dict[str, str]) -> None:
        self.lock = Lock()
        self.stored = dict.fromkeys(keys)
        self.refused = refused
        self.requests: list[int] = []
        self.busy = 0

    def send(self, keys: Sequence[str]) -> Refused | None:
        with self.lock:
            return self._answer(keys)

    def _answer(self, keys: Sequence[str]) -> Refused | None:
        self.requests.append(len(keys))
        if self.busy:
            self.busy -= 1
            return Refused("slow down", busy=True)
        for key in keys:
            if key not in self.refused:
                self.stored.pop(key, None)
        left = [key for key in keys if key in self.refused]
        return Refused(self.refused[left[-1]], left[-1]) if left else None

    def still_listed(self, keys: Sequence[str]) -> list[str]:
        return [key for key in keys if key in self.stored]

    def delete(self, keys: Sequence[str]) -> DeleteCalls:
        pace = Pace(lambda: 0.0, lambda seconds: None, lambda: 0.0)
        return BulkDeletion(self.send, self.still_listed, pace, self.at_once).delete(keys)


@pytest.fixture(autouse=True, params=[1, 4])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Every test goes for requests one after the other, and some at a time."""
    number: int = request.param
    monkeypatch.setattr(BulkStore, "at_once", number)
    return number


class RecordedPace(Pace):
    """Writes down when a request is begun, and when its answer is taken."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0, lambda seconds: None, lambda: 0.0)
        self.said = ""

    def wait(self, wanted: int) -> int:
        self.said += "b"
        return super().wait(min(wanted, 1))

    def answered(self) -> None:
        self.said += "a"
        super().answered()

    def throttled(self, objects: int) -> None:
        self.said += "t"
        super().throttled(objects)


def test_requests_are_under_way_at_the_same_time_until_the_store_throttles(at_once: int) -> None:
    together, busy = Barrier(at_once, timeout=60), [True]

    def send(keys: Sequence[str]) -> Refused | None:
        if keys == [KEYS[0]] and busy:
            together.wait()
            busy.clear()
            return Refused("slow down", busy=True)
        if keys[0] in KEYS[:at_once] and busy:
            together.wait()
        return None

    pace = RecordedPace()
    assert not BulkDeletion(send, lambda keys: list(keys), pace, at_once).delete(KEYS[:6]).failures
    # What was under way is answered, the first is sent again, and then there is one at a time.
    assert pace.said == "b" * at_once + "a" * (at_once - 1) + "t" + "ba" * (7 - at_once)


def test_each_refused_object_has_its_own_reason() -> None:
    refused = {KEYS[3]: "locked", KEYS[500]: "denied", KEYS[1_700]: "odd"}
    store = BulkStore(KEYS, refused)
    report = store.delete(KEYS)
    assert {key: report.failures[key] for key in store.stored} == refused
    assert sorted(store.requests) == [1, 1, 1, 500, 1_000, 1_000]


def test_where_all_are_refused_requests_are_bounded_and_nobody_is_without_a_reason() -> None:
    store = BulkStore(KEYS, dict.fromkeys(KEYS, "denied"))
    report = store.delete(KEYS)
    assert len(store.requests) <= 110
    assert {"denied" in report.failures[key] for key in KEYS} == {True}
    assert not report.throttled


def test_a_throttled_request_is_made_again_and_nothing_is_left() -> None:
    store = BulkStore(KEYS, {})
    store.busy = MOST_IN_A_ROW - 1
    report = store.delete(KEYS)
    assert (store.stored, report.failures, report.throttled) == ({}, {}, set())


def test_what_a_storm_leaves_is_told_from_what_was_refused() -> None:
    store = BulkStore(KEYS, {KEYS[0]: "locked"})
    send = store.send

    def storm_after_the_first(keys: Sequence[str]) -> Refused | None:
        answer = send(keys)
        store.busy = 100
        return answer

    store.send = storm_after_the_first  # type: ignore[method-assign]
    report = store.delete(KEYS)
    # Which of those under way came first nobody knows.
    answered = set(KEYS) - store.stored.keys() - report.throttled
    assert len(answered | {KEYS[0]}) == 1_000 or at_once > 1
    assert set(report.throttled) | answered | {KEYS[0]} == set(KEYS)
    assert report.failures[KEYS[0]] == "locked"
    assert report.failures[KEYS[2_000]] == "the store throttles or does not answer: slow down"


def test_a_call_that_hangs_ends_the_deletion(at_once: int) -> None:
    def hang(keys: Sequence[str]) -> Refused | None:
        raise StorageUnavailableError("no answer within 300 s")

    pace = Pace(lambda: 0.0, lambda seconds: None, lambda: 0.0)
    report = BulkDeletion(hang, lambda keys: list(keys), pace, at_once).delete(KEYS)
    # What was sent before nobody had an answer.
    assert set(report.failures) == set(report.sent) == set(KEYS[: 1_000 * at_once])


@pytest.mark.parametrize(
    ("text", "status", "busy"),
    [
        ("Server returned non-2xx status code: 503 Service Unavailable: <Error/>", "503", True),
        ("Server returned non-2xx status code: 429 Too Many Requests: ", "429", True),
        ("Server returned non-2xx status code: 403 Forbidden: (code: 503)", "403", False),
        ("Server returned non-2xx status code: 400 Bad Request: error sending request", "400", False),
        ("DeleteObjects request failed for key a.log: said 503 (code: AccessDenied)", "", False),
        ("DeleteObjects request failed for key a.log: please (code: SlowDown)", "", True),
        ("Server returned error response: <Error><Code>AccessDenied</Code><Code>SlowDown</Code>", "", True),
        ("Server returned error response: <Error><Key>a</Key><Code>InternalError</Code>", "", False),
        ("Server returned non-2xx status code: 500 Internal Server Error", "500", False),
        ("HTTP error: error sending request", "", True),
        ("something else", "", False),
    ],
)
def test_answers_are_told_apart(text: str, status: str, busy: bool) -> None:
    assert (status_of(text), is_busy(text)) == (status, busy)


def test_the_named_object_is_found_below_any_prefix() -> None:
    text = "Generic S3 error: DeleteObjects request failed for key tiered/a/b.log: no (code: AccessDenied)"
    assert key_of_refusal(text, ["b.logs", "a/b.log", "c"]) == "a/b.log"
    assert key_of_refusal(text, ["c"]) is None
    assert key_of_refusal("another error: a/b.log: no", ["a/b.log"]) is None
    body = "error response: <Deleted><Key>x/c</Key></Deleted><Error><Key>x/a&amp;b</Key><Code>InternalError</Code>"
    assert key_of_refusal(body, ["c", "a&b"]) == "a&b"
