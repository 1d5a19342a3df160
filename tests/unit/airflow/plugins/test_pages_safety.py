# SPDX-License-Identifier: Apache-2.0
"""What lies in the work folder is chosen by whoever can write there: the pages show a document or say why not."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from airflow_provider_rlmm.core.base.documents import plain_of
from airflow_provider_rlmm.core.base.errors import DocumentError
from airflow_provider_rlmm.features.doctor.diagnosis import ReportedDiagnosis
from airflow_provider_rlmm.features.doctor.findings import Diagnosis, Finding, FindingKind, Severity
from airflow_provider_rlmm.overview import documents
from airflow_provider_rlmm.overview.documents import read_json_object
from airflow_provider_rlmm.plugins import rendering, serving, web
from airflow_provider_rlmm.plugins.pages import DOCUMENT_PAGES, DocumentPage, error_page
from tests.object_store_server import ObjectStoreServer
from tests.unit.airflow.auth import Everybody, Nobody, log_in, pages, pages_without_a_login

SECRET = "s3cr3t"
FILES = {
    "plans": "summary.json", "reports": "report.json", "doctor": "doctor.json", "scrubs": "scrub.json",
    "scrub-plans": "scrub-plan.json",
}  # fmt: skip
WALKS = ("\n", "\u202e", "\u200f", "\x1b", "\ud800", "\u2028")


def diagnosis(topic: str = "orders", **changed: Any) -> dict[str, Any]:
    stuck = Finding(FindingKind.STUCK_SEGMENT, Severity.WARNING, 4, 12, "id", topic, 0, "segment", 5, topic)
    made = Diagnosis(
        "cluster-1", 1_700_000_000_000, {3: 1200}, 1200, 4321, {FindingKind.STUCK_SEGMENT: 1}, findings=(stuck,)
    )
    return plain_of(ReportedDiagnosis.of(made)) | changed


PIPES: list[int] = []
"""Open at both ends: should a pipe ever be waited for, the test fails and does not hang."""


@pytest.fixture(autouse=True)
def close_pipes() -> Iterator[None]:
    yield
    while PIPES:
        os.close(PIPES.pop())


def make_pipe(path: Path) -> None:
    os.mkfifo(path)
    PIPES.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(tmp_path / "work"))
    (tmp_path / "work" / "d").mkdir(parents=True)
    (tmp_path / "outside.json").write_text(json.dumps(diagnosis(SECRET)))
    return tmp_path / "work"


@pytest.fixture
def client(work: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    app = pages()
    log_in(app, monkeypatch, Everybody)
    with TestClient(app, raise_server_exceptions=False) as test_client:
        yield test_client


def document(work: Path) -> Path:
    return work / "d" / "doctor.json"


# -- which files are read ----------------------------------------------------------------------------------------------


def link_to_a_file_outside(work: Path) -> None:
    document(work).symlink_to(work.parent / "outside.json")


def link_to_a_folder_outside(work: Path) -> None:
    (work.parent / "outside").mkdir()
    (work.parent / "outside" / "doctor.json").write_text(json.dumps(diagnosis(SECRET)))
    (work / "d").rmdir()
    (work / "d").symlink_to(work.parent / "outside")


def link_with_dots(work: Path) -> None:
    document(work).symlink_to("../../outside.json")


def link_to_itself(work: Path) -> None:
    document(work).symlink_to("doctor.json")


def link_to_the_work_folder(work: Path) -> None:
    document(work).symlink_to(work)


def named_pipe(work: Path) -> None:
    make_pipe(document(work))


def link_to_a_pipe(work: Path) -> None:
    make_pipe(work / "pipe")
    document(work).symlink_to("../pipe")


def a_socket(work: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        # Its path may be longer than a socket's address.
        here = Path.cwd()
        os.chdir(work / "d")
        try:
            bound.bind("doctor.json")
        finally:
            os.chdir(here)


def device(work: Path) -> None:
    document(work).symlink_to("/dev/zero")


def directory(work: Path) -> None:
    document(work).mkdir()


def file_in_the_place_of_a_folder(work: Path) -> None:
    (work / "d").rmdir()
    (work / "d").write_text("{}")


@pytest.mark.parametrize(
    ("put", "words"),
    [
        (link_to_a_file_outside, "is a link that leads out of the work folder"),
        (link_to_a_folder_outside, "is a link that leads out of the work folder"),
        (link_with_dots, "is a link that leads out of the work folder"),
        (device, "is a link that leads out of the work folder"),
        (link_to_the_work_folder, "is a link that leads out of the work folder"),
        (link_to_itself, "cannot be read: Too many levels of symbolic links"),
        (named_pipe, "is a named pipe, not a file"),
        (link_to_a_pipe, "is a named pipe, not a file"),
        (a_socket, "cannot be read: No such device or address"),
        (directory, "is a directory, not a file"),
        (file_in_the_place_of_a_folder, "cannot be read: Not a directory"),
    ],
)
@pytest.mark.parametrize("end", ["", "/json"])
def test_only_regular_files_below_the_work_folder_are_read(
    client: TestClient, work: Path, put: Callable[[Path], None], words: str, end: str
) -> None:
    put(work)
    answer = client.get(f"/doctor/d{end}")
    assert (answer.status_code, f"doctor.json of d {words}" in answer.text) == (422, True)
    assert "What to do: look at the file" in answer.text or "what_to_do" in answer.json()
    assert SECRET not in answer.text


def test_a_pipe_without_a_writer_keeps_nobody_waiting(work: Path) -> None:
    os.mkfifo(document(work))
    answers: list[str] = []

    def read() -> None:
        with pytest.raises(DocumentError) as caught:
            read_json_object(str(work), "d", "doctor.json")
        answers.append(str(caught.value))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(20)
    in_time = list(answers)
    if not in_time:
        # Let go of it, so that the failure is all that is left.
        os.close(os.open(document(work), os.O_RDWR | os.O_NONBLOCK))
    assert in_time == ["doctor.json of d is a named pipe, not a file"]


def test_a_link_within_the_work_folder_is_followed(client: TestClient, work: Path) -> None:
    (work / "other").mkdir()
    (work / "other" / "kept.json").write_text(json.dumps(diagnosis()))
    document(work).symlink_to("../other/kept.json")
    assert client.get("/doctor/d").status_code == 200


def test_the_work_folder_itself_may_be_a_link(client: TestClient, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document(work).write_text(json.dumps(diagnosis()))
    (work.parent / "link").symlink_to(work)
    for uri in (work.parent / "link", (work.parent / "link").as_uri()):
        monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", str(uri))
        assert client.get("/doctor/d").status_code == 200


@pytest.mark.parametrize("swapped", ["d", "d/doctor.json"])
def test_a_link_that_is_put_in_the_way_meanwhile_leads_nowhere(
    work: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    document(work).write_text(json.dumps(diagnosis()))
    outside = work.parent / "outside"
    outside.mkdir()
    (outside / "doctor.json").write_text(json.dumps(diagnosis(SECRET)))
    find = os.path.realpath

    def realpath(path: Any) -> str:
        found = find(path)
        if found.endswith("doctor.json"):
            # Right after it was judged.
            (work / swapped).rename(work / "was-there")
            (work / swapped).symlink_to(outside if swapped == "d" else outside / "doctor.json")
        return found

    monkeypatch.setattr(os.path, "realpath", realpath)
    with pytest.raises(DocumentError, match=r"cannot be read: (Not a directory|Too many levels of symbolic links)"):
        read_json_object(str(work), "d", "doctor.json")


def test_a_large_file_is_not_read(work: Path) -> None:
    document(work).write_text(json.dumps(diagnosis("x" * 1_000)))
    assert read_json_object(str(work), "d", "doctor.json", max_bytes=10_000)
    with pytest.raises(DocumentError, match="has more than 900 bytes"):
        read_json_object(str(work), "d", "doctor.json", max_bytes=900)


def test_a_file_of_which_nothing_is_on_the_disk_does_not_fill_the_memory(client: TestClient, work: Path) -> None:
    with document(work).open("wb") as file:
        file.truncate(2**40)
    answer = client.get("/doctor/d")
    assert (answer.status_code, "has more than 33554432 bytes" in answer.text) == (422, True)


def test_a_file_that_one_may_not_read(client: TestClient, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", f"/{SECRET}")

    document(work).touch()
    monkeypatch.setattr(documents, "_open_below", denied)
    answer = client.get("/doctor/d")
    assert (answer.status_code, "cannot be read: Permission denied" in answer.text) == (422, True)
    assert SECRET not in answer.text


# -- object stores -------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(object_store: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch) -> ObjectStoreServer:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", "s3://bucket/rlmm")
    return object_store


def test_documents_of_an_object_store(client: TestClient, store: ObjectStoreServer) -> None:
    store.objects["/bucket/rlmm/d/doctor.json"] = json.dumps(diagnosis()).encode()
    assert client.get("/doctor/d").status_code == 200
    assert client.get("/doctor/missing").status_code == 404


def test_a_large_object_is_not_read(store: ObjectStoreServer) -> None:
    store.objects["/bucket/rlmm/d/doctor.json"] = json.dumps(diagnosis("x" * 1_000)).encode()
    assert read_json_object("s3://bucket/rlmm", "d", "doctor.json", max_bytes=10_000)
    with pytest.raises(DocumentError, match=r"^doctor.json of d has more than 900 bytes"):
        read_json_object("s3://bucket/rlmm", "d", "doctor.json", max_bytes=900)


def test_the_pages_have_a_limit_for_objects_too(
    client: TestClient, store: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.objects["/bucket/rlmm/d/doctor.json"] = b" " * (documents.MAX_DOCUMENT_BYTES + 1)
    answer = client.get("/doctor/d")
    assert (answer.status_code, "has more than 33554432 bytes" in answer.text) == (422, True)


def test_a_store_that_does_not_give_it_out(client: TestClient, store: ObjectStoreServer) -> None:
    store.forbidden = True
    answer = client.get("/doctor/d")
    assert (answer.status_code, "cannot be read: the store does not give it out" in answer.text) == (422, True)
    for secret in ("a-key", "a-secret", "127.0.0.1"):
        assert secret not in answer.text


# -- which documents are shown -------------------------------------------------------------------------------------------

NO_JSON = {
    "nothing": b"",
    "no end": b"{",
    "no text": b"\xff\xfe",
    "deep": b'{"a":' * 100_000,
    "deep lists": b'{"a":' + b"[" * 100_000,
    "twice": b'{"a": 1, "a": 2}',
    "NaN": b'{"a": NaN}',
    "infinite": b'{"a": 1e999}',
    "huge": b'{"a": ' + b"9" * 5_000 + b"}",
    "a list": b"[]",
    "a number": b"7",
    "a text": b'"text"',
    "null": b"null",
}


@pytest.mark.parametrize("content", NO_JSON.values(), ids=NO_JSON)
@pytest.mark.parametrize("kind", FILES)
def test_what_is_no_json_object(client: TestClient, work: Path, kind: str, content: bytes) -> None:
    (work / "d" / FILES[kind]).write_bytes(content)
    for end in ("", "/json"):
        answer = client.get(f"/{kind}/d{end}")
        assert (answer.status_code, "is not JSON" in answer.text) == (422, True)


FORMS: dict[str, Any] = {
    "empty": {},
    "a text for a number": diagnosis(records="many"),
    "a truth value for a number": diagnosis(segments=True),
    "a fraction": diagnosis(critical=0.5),
    "beyond 64 bits": diagnosis(examined_at_ms=10**30),
    "no list": diagnosis(findings={}),
    "no finding": diagnosis(findings=["x"]),
    "half a finding": diagnosis(findings=[{"kind": "STUCK_SEGMENT"}]),
    "an unknown severity": diagnosis(findings=[diagnosis()["findings"][0] | {"severity": "x"}]),
    "a partition beyond 32 bits": diagnosis(findings=[diagnosis()["findings"][0] | {"partition": 2**31}]),
    "a time beyond 64 bits": diagnosis(findings=[diagnosis()["findings"][0] | {"since_ms": -(2**63) - 1}]),
    "a number for a text": diagnosis(findings=[diagnosis()["findings"][0] | {"detail": 5}]),
    "no counts": diagnosis(counts=None),
    "an explanation without a count": diagnosis(counts={}),
    "a finding without an explanation": diagnosis(findings=[diagnosis()["findings"][0] | {"kind": "OTHER"}]),
    "no explanation": diagnosis(explanations={"STUCK_SEGMENT": None}),
    "no recovery": diagnosis(recoveries=[{}]),
    "an endless text": diagnosis(cluster_id="x" * 20_000),
}


@pytest.mark.parametrize("content", FORMS.values(), ids=FORMS)
def test_what_is_no_diagnosis(client: TestClient, work: Path, content: Any) -> None:
    document(work).write_text(json.dumps(content))
    answer = client.get("/doctor/d")
    assert (answer.status_code, "doctor.json of d does not have the expected form" in answer.text) == (422, True)
    assert "diagnosis" in answer.text
    assert client.get("/doctor/d/json").json() == content


@pytest.mark.parametrize("kind", [kind for kind in FILES if kind != "plans"])
def test_whatever_a_page_cannot_show_is_the_documents_fault(
    client: TestClient, work: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def fail(*_: Any) -> Any:
        raise OverflowError("too large")

    (work / "d" / FILES[kind]).write_text("{}")
    monkeypatch.setitem(DOCUMENT_PAGES, kind, DocumentPage(kind, FILES[kind], fail, fail))
    answer = client.get(f"/{kind}/d")
    assert (answer.status_code, "(OverflowError: too large)" in answer.text) == (422, True)


def test_a_finding_may_have_further_fields() -> None:
    more = diagnosis(more=1, findings=[diagnosis()["findings"][0] | {"more": 1}])
    assert "Stuck segment" in DOCUMENT_PAGES["doctor"].show("d", more)


def test_a_time_of_no_calendar_stays_a_number() -> None:
    assert f"{2**62} ms" in DOCUMENT_PAGES["doctor"].show("d", diagnosis(examined_at_ms=2**62))


def test_a_work_folder_that_cannot_be_used_is_said(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", "ftp://host/rlmm")
    answer = client.get("/plans/p")
    assert (answer.status_code, "is no URI of a directory or file" in answer.text) == (422, True)
    monkeypatch.setenv("AIRFLOW__RLMM__WORK_URI", f"s3://key:{SECRET}@bucket")
    answer = client.get("/plans/p")
    assert (answer.status_code, "[rlmm] work_uri must hold neither credentials" in answer.text) == (422, True)
    assert SECRET not in answer.text


# -- texts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", WALKS)
def test_no_text_brings_a_line_break_or_a_mark_of_direction(client: TestClient, work: Path, mark: str) -> None:
    text = f"safe{mark}exe.gpj"
    document(work).write_text(json.dumps(diagnosis(text, cluster_id=text)))
    for path in ("/doctor/d", "/doctor/d/json"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert text not in answer.text
        assert "exe.gpj" in answer.text
    assert client.get("/doctor/d/json").json()["cluster_id"] == text


def test_a_long_text_is_cut() -> None:
    assert "x" * 4_001 not in DOCUMENT_PAGES["doctor"].show("d", diagnosis(cluster_id="x" * 9_000))


def test_topics_are_quoted_where_kafka_would_not_allow_their_name() -> None:
    filters = rendering._environment().filters
    assert filters["topic"]("orders") == "orders"
    assert filters["topic"]("a\nb") == r"'a\nb'"


# -- headers -------------------------------------------------------------------------------------------------------------

HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


def headers_of(answer: Any) -> dict[str, str]:
    return {name: answer.headers.get(name) for name in HEADERS}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/doctor/d", 200),
        ("/doctor/d/json", 200),
        ("/doctor/missing", 404),
        ("/doctor/missing/json", 404),
        # What browsers make of it: the address of the first page.
        ("/doctor/..%2f", 200),
        ("/elsewhere", 404),
        ("/plans/d", 422),
        ("/plans/d/json", 200),
        ("/doctor/d/", 200),
    ],
)
def test_every_answer_has_the_security_headers(client: TestClient, work: Path, path: str, status: int) -> None:
    document(work).write_text(json.dumps(diagnosis()))
    (work / "d" / "summary.json").write_text("{}")
    answer = client.get(path)
    assert answer.status_code == status
    for one in (answer, *answer.history):
        assert headers_of(one) == HEADERS


@pytest.mark.parametrize("name", rendering.STATIC_FILES)
def test_style_and_script_are_for_everybody_and_for_good(client: TestClient, name: str) -> None:
    with TestClient(pages_without_a_login()) as anonymous:
        address = rendering.Shell().static(name)
        answer = anonymous.get(address)
    assert (answer.status_code, answer.content) == (200, rendering.static_file(name))
    assert answer.headers["content-type"].startswith(rendering.STATIC_FILES[name])
    assert headers_of(answer) == HEADERS | {"cache-control": "public, max-age=31536000, immutable"}
    assert client.get(f"/static/{name}").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("name", ["..%2fweb.py", "rendering.py", "%2e%2e", "rlmm.css%00"])
def test_nothing_else_is_given_out_to_everybody(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404


def test_no_template_has_a_script_or_a_style_of_its_own() -> None:
    """The policy forbids them: what they do would be missing."""
    templates = Path(rendering.__file__).parent / "templates"
    for text in [path.read_text() for path in templates.glob("*.html")]:
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|<script(?! src=)", text)


def test_other_methods_have_them_too(client: TestClient) -> None:
    answer = client.post("/doctor/d")
    assert answer.status_code == 405
    assert headers_of(answer) == HEADERS
    assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize("end", ["", "/json"])
def test_strangers_see_them_and_what_to_do(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, work: Path, end: str
) -> None:
    monkeypatch.setattr("airflow.api_fastapi.core_api.security.get_auth_manager", Nobody)
    with TestClient(pages_without_a_login()) as anonymous:
        for answer, status, words in (
            (anonymous.get(f"/doctor/d{end}"), 401, "log in to Airflow"),
            (client.get(f"/doctor/d{end}"), 403, "ask an administrator"),
        ):
            assert (answer.status_code, words in answer.text) == (status, True)
            assert headers_of(answer) == HEADERS


@pytest.mark.parametrize("end", ["", "/json"])
def test_an_error_of_ours_is_a_page_without_details(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(serving, "read_json_object", fail)
    answer = client.get(f"/doctor/d{end}")
    assert (answer.status_code, "cannot be made (RuntimeError)" in answer.text) == (500, True)
    assert "look into the log of the API server" in answer.text
    assert SECRET not in answer.text
    assert headers_of(answer) == HEADERS


def test_an_error_page_escapes_what_it_says() -> None:
    html = error_page(web.HTTPStatus.NOT_FOUND, '<script>alert("x")</script>\n', "look")
    assert html.count("<script") == html.count("<script src=") == 1
    assert "Not Found" in html
