# SPDX-License-Identifier: Apache-2.0
"""Plan and generations in object stores, as the driver sees them, and what opens these on other machines."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from airflow_provider_rlmm import __version__
from airflow_provider_rlmm.core.base import object_stores
from airflow_provider_rlmm.core.base.errors import ConfigurationError, PlanError, StorageAccessError
from airflow_provider_rlmm.core.base.file_systems import list_files, list_folders, read_file, replace_file, writing
from airflow_provider_rlmm.core.generations.store import GenerationStore
from airflow_provider_rlmm.core.plans.plan import SUMMARY_NAME
from airflow_provider_rlmm.core.storage.credentials import StoreAccess, StoreCredentials
from airflow_provider_rlmm.core.storage.handed_store import HandedStore
from airflow_provider_rlmm.core.world.cluster_state import ClusterState
from airflow_provider_rlmm.features.retention.spark import stores
from airflow_provider_rlmm.features.retention.spark.plan_folder import PlanFolder
from airflow_provider_rlmm.features.retention.spark.stores import Stores, stores_in_use
from dev.spark_job import load_job
from tests.aws_server import BUCKET, REGION, AwsServer, running_aws_server
from tests.moto_s3 import MotoS3
from tests.stores.gcs_server import BUCKET as GOOGLES
from tests.stores.gcs_server import running_gcs_server
from tests.stores.recording_proxy import running_proxy
from tests.unit.core.generations.test_manifest import GENERATION

KEY, SECRET = "AKIAPLANTEDKEYID1234", "pl4nted/secret+value="


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Leave the way in which this process opens stores as it was."""
    openers, in_use = object_stores._openers[:], stores._in_use[:]
    yield
    object_stores._openers[:], stores._in_use[:] = openers, in_use


@pytest.fixture
def aws() -> Iterator[AwsServer]:
    """A store that takes one key."""
    with running_aws_server() as server:
        server.access_keys = {KEY, "the-test"}
        yield server


def options_of(server: AwsServer, **more: str) -> dict[str, str]:
    return {"aws_region": REGION, "aws_endpoint": server.url, "allow_http": "true", **more}


def keys() -> dict[str, str]:
    return {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}


# --- the folder of a plan --------------------------------------------------------------------------------------------


@pytest.fixture(params=["local", "object store"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return (tmp_path / "plan").as_uri()
    return f"s3://{request.getfixturevalue('s3').bucket()}/rlmm/plan"


@pytest.mark.slow
def test_what_tasks_wrote_gets_its_name_and_the_summary_comes_once(uri: str) -> None:
    folder = PlanFolder(uri)
    folder.clear()
    with folder.new_rows() as rows:
        replace_file(f"{uri}/{rows}/ab12.parquet", [b"rows"])
        replace_file(f"{uri}/{rows}/of-a-task-that-lost.parquet", [b"other rows"])
        folder.take(f"{rows}/ab12.parquet", "metadata-partition-0.parquet")
        with pytest.raises(PlanError, match=r"ab12\.parquet is gone: another try writes this plan; run again"):
            folder.take(f"{rows}/ab12.parquet", "metadata-partition-0.parquet")
    folder.create(SUMMARY_NAME, b"mine")
    with pytest.raises(PlanError, match=r"summary\.json exists already: another try wrote this plan"):
        folder.create(SUMMARY_NAME, b"other")
    assert list_files(uri) == ["metadata-partition-0.parquet", SUMMARY_NAME]
    assert list_folders(uri) == []
    assert read_file(f"{uri}/{SUMMARY_NAME}").to_pybytes() == b"mine"


@pytest.mark.slow
def test_a_new_try_removes_the_older_plan_and_what_killed_ones_left(uri: str) -> None:
    for name in ("metadata-partition-7.parquet", SUMMARY_NAME, "rows-0123.tmp/deep/file", "job-1/listing", "notes.txt"):
        replace_file(f"{uri}/{name}", [b"old"])
    PlanFolder(uri).clear()
    assert (list_files(uri), list_folders(uri)) == (["notes.txt"], ["job-1"])


def test_what_failed_is_told_and_not_that_its_folder_cannot_be_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*_: Any) -> None:
        raise OSError("the store is away")

    monkeypatch.setattr(f"{PlanFolder.__module__}.remove_folder", refused)
    with pytest.raises(ZeroDivisionError), PlanFolder(str(tmp_path)).new_rows():
        _ = 1 // 0
    with (
        pytest.raises(PlanError, match=r"the folder of the plan, file:///.* cannot be used: the store is away"),
        PlanFolder(str(tmp_path)).new_rows(),
    ):
        pass


@pytest.mark.slow
def test_a_gateway_that_writes_over_what_is_there_gets_neither_plan_nor_generation(s3: MotoS3) -> None:
    s3.ignores_conditions = True
    bucket = s3.bucket()
    uri = f"s3://{bucket}/work"
    refused = r"writes over .*If-None-Match.* keeps to conditional writes"
    with pytest.raises(ConfigurationError, match=refused):
        PlanFolder(uri).clear()
    with pytest.raises(ConfigurationError, match=refused):
        PlanFolder(uri).create(SUMMARY_NAME, b"{}")
    store = GenerationStore(uri)
    with pytest.raises(PlanError, match=refused):
        store.create(GENERATION)
    assert s3.objects(bucket) == {}


# --- what opens a store on another machine ---------------------------------------------------------------------------


def test_options_open_stores_of_their_kind_on_another_machine(aws: AwsServer) -> None:
    handed = HandedStore(options_of(aws, **keys()))
    sent = pickle.loads(pickle.dumps(Stores.of(handed, [f"s3a://{BUCKET}/a", "/shared"])))
    sent.use(f"s3://{BUCKET}/a")
    replace_file(f"s3://{BUCKET}/a/b", [b"1"])
    assert aws.keys() == {"a/b"}
    assert stores_in_use() == sent
    assert sent._opened("gs://bucket/a") is None, "options of one kind of store mean nothing to another"


def test_credentials_of_a_connection_are_handed_over_as_they_are_now(aws: AwsServer) -> None:
    given = {"access_key_id": KEY, "secret_access_key": SECRET, "token": "a-session", "expires_at": object()}
    credentials = StoreCredentials("connection 'work'", lambda: given)
    handed = HandedStore.from_json(HandedStore.of(StoreAccess(options_of(aws), credentials)).to_json(), "it")
    Stores.of(handed, [f"s3://{BUCKET}"]).use()
    replace_file(f"s3://{BUCKET}/a/b", [b"1"])
    assert {(asked.access_key, asked.token) for asked in aws.asked} == {(KEY, "a-session")}


def test_a_token_opens_googles_store() -> None:
    """All that the job does there; a token of Google's is none of a store's options, so it comes as credentials."""
    token = {"token": "ya29.planted-token", "expires_at": object()}
    uri = f"gs://{GOOGLES}/work"
    with running_gcs_server() as server, running_proxy() as proxy:
        proxy.upstream = f"127.0.0.1:{server.server_port}"
        access = StoreAccess(
            {"base_url": f"http://{proxy.address}", "allow_http": "true"}, StoreCredentials("c", lambda: token)
        )
        Stores.of(HandedStore.of(access), [uri]).use(uri)
        folder = PlanFolder(uri)
        folder.clear()
        with folder.new_rows() as rows:
            with writing(f"{uri}/{rows}/ab12.parquet") as file:
                file.write(b"rows")
            folder.take(f"{rows}/ab12.parquet", "metadata-partition-0.parquet")
        folder.create(SUMMARY_NAME, b"mine")
        with pytest.raises(PlanError, match="exists already"):
            folder.create(SUMMARY_NAME, b"other")
        found = {key: bytes(data) for key, data in server.objects.items()}
        assert found == {"work/metadata-partition-0.parquet": b"rows", f"work/{SUMMARY_NAME}": b"mine"}
        assert {asked.authorization for asked in proxy.asked} == {"Bearer ya29.planted-token"}


def test_a_connection_without_credentials_hands_over_none() -> None:
    def none() -> Any:
        raise ValueError("no profile")

    with pytest.raises(StorageAccessError, match="connection 'work' gives no credentials"):
        HandedStore.of(StoreAccess({}, StoreCredentials("connection 'work'", none)))
    assert HandedStore.of(StoreAccess({"skip_signature": "true"})) == HandedStore({"skip_signature": "true"})


def test_no_secret_is_in_what_is_printed_or_told(aws: AwsServer) -> None:
    wrong = {
        "aws_access_key_id": "AKIAANOTHERKEYID1234",
        "aws_secret_access_key": SECRET,
        "aws_session_token": "t0ken-of-it",
    }
    handed = HandedStore(options_of(aws, **wrong), {"token": "an0ther-token"})
    given = Stores.of(HandedStore(options_of(aws, **wrong)), [f"s3://{BUCKET}"])
    given.use()
    with pytest.raises(OSError, match="InvalidAccessKeyId") as error:
        read_file(f"s3://{BUCKET}/a")
    for text in (repr(handed), str(Stores(handed, "s3")), str(error.value)):
        assert not [secret for secret in (SECRET, "t0ken-of-it", "an0ther-token", "AKIAANOTHER") if secret in text]
    assert {SECRET, "t0ken-of-it", "an0ther-token"} <= set(handed.secrets)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '"s3cret"', "{s3cret", '{"aws_secret_access_key": "s3cret"}', '{"options": "s3cret"}',
     '{"options": {"a": ["s3cret"]}}', '{"options": {}, "credentials": {"token": {"s3cret": 1}}}'],
)  # fmt: skip
def test_a_document_that_is_none_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^options\.json (is no JSON; it )?must be \{\"options\"") as error:
        HandedStore.from_json(text, "options.json")
    assert "s3cret" not in str(error.value)


def test_a_person_may_write_numbers_and_booleans() -> None:
    text = '{"options": {"allow_http": true, "timeout": 30, "aws_region": "x"}}'
    assert HandedStore.from_json(text, "it").options == {"allow_http": "true", "timeout": "30", "aws_region": "x"}


@pytest.mark.parametrize(
    ("uris", "why"),
    [(["/a", "file:///b"], "lies in no object store"), (["s3://a/b", "gs://c/d"], "lies in stores of gs and s3")],
)
def test_options_are_for_one_kind_of_store(uris: list[str], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        Stores.of(HandedStore({}), uris)
    assert Stores.of(None, uris) == Stores()


def test_a_python_without_obstore_is_refused_before_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "find_spec", lambda name: None)
    Stores().use("/shared/folder")
    Stores().use()
    with pytest.raises(
        ConfigurationError, match=r"has no obstore, which opens s3://bucket/a: install obstore .* Spark's"
    ):
        Stores().use("s3://bucket/a")


# --- the job ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def job() -> ModuleType:
    return load_job()


def test_the_job_opens_stores_by_the_file_that_it_is_given(job: ModuleType, aws: AwsServer, tmp_path: Path) -> None:
    path = tmp_path / "store.json"
    path.write_text(json.dumps({"options": options_of(aws, **keys())}))
    words = ["--bootstrap-servers", "b:1", "--cluster-state", "x", "--output", f"s3://{BUCKET}/plan", "--plan-id", "p"]
    arguments = job.parse_arguments([*words, "--data-set", f"s3a://{BUCKET}/segments", "--store-options", str(path)])
    assert SECRET not in repr(arguments)
    job._open_stores(arguments)
    PlanFolder(arguments.output).create(SUMMARY_NAME, b"{}")
    assert aws.keys() == {f"plan/{SUMMARY_NAME}"}
    assert job._without_secrets(f"it said {SECRET}", {}) == "it said ***"


def test_the_job_ends_in_a_line_where_the_file_is_missing(
    job: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listing = tmp_path / "listing.json"
    listing.write_text(ClusterState("c", 1, ()).to_json())
    words = ["--bootstrap-servers", "b:1", "--cluster-state", str(listing), "--output", "s3://b/plan", "--plan-id", "p"]
    assert job.main([*words, "--store-options", str(tmp_path / "missing.json")]) == 1
    assert "no plan: file of store options" in caplog.text
    assert "missing.json cannot be read on the machine of the Spark driver: No such file" in caplog.text


def test_a_job_of_another_version_does_not_work_for_whoever_asks(
    job: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = [
        "--bootstrap-servers",
        "b:1",
        "--cluster-state",
        str(tmp_path / "none"),
        "--output",
        str(tmp_path),
        "--plan-id",
        "p",
    ]
    word = tmp_path / "no-plan.txt"
    assert job.main([*words, "--package-version", "99.1", "--last-word", str(word)]) == 1
    assert word.read_text().startswith("no plan: the job's code on the Spark cluster is airflow-provider-rlmm ")
    assert "and 99.1 has asked for it: let rlmm spark-files of that version write it anew" in caplog.text
    caplog.clear()
    assert job.main([*words, "--package-version", __version__]) == 1
    assert "cluster state" in caplog.text


def test_the_last_word_and_the_listing_may_lie_in_a_store(job: ModuleType, aws: AwsServer, tmp_path: Path) -> None:
    path = tmp_path / "store.json"
    path.write_text(json.dumps({"options": options_of(aws, **keys())}))
    place = f"s3://{BUCKET}/job-1"
    words = ["--bootstrap-servers", "b:1", "--output", f"{place}/plan", "--plan-id", "p", "--store-options", str(path)]
    assert job.main([*words, "--cluster-state", f"{place}/listing.json", "--last-word", f"{place}/no-plan.txt"]) == 1
    assert aws.objects()["job-1/no-plan.txt"].startswith(f"no plan: cluster state {place}/listing.json cannot".encode())
    replace_file(f"{place}/listing.json", [ClusterState("c", 1, ()).to_json().encode()])
    assert job._read_cluster_state(f"{place}/listing.json") == ClusterState("c", 1, ())
