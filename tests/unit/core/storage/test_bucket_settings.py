# SPDX-License-Identifier: Apache-2.0
"""What the settings of buckets, and version ids of objects, tell about deletion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_rlmm.core.base.errors import HiddenCopiesError
from airflow_provider_rlmm.core.storage.azure_settings import AzureContainerInspector
from airflow_provider_rlmm.core.storage.bucket_settings import GcsBucketInspector, S3BucketInspector
from airflow_provider_rlmm.core.storage.hidden_copies import (
    DeletionEffect,
    Freed,
    by_versions,
    together,
    without_settings,
)

PREFIXES = ["kp/", "old/"]


class S3Client:
    """Answers as boto3's client does; a text in place of an answer is the code of an error."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.meta = SimpleNamespace(events=SimpleNamespace(register=lambda *_: None))

    def __getattr__(self, call: str) -> Any:
        from botocore.exceptions import ClientError, EndpointConnectionError

        def answer(Bucket: str) -> Any:  # noqa: N803 - boto3's name
            assert Bucket == "b"
            found = self.answers.get(call, {})
            if found == "no answer":
                raise EndpointConnectionError(endpoint_url="http://secret-host/")
            if isinstance(found, str):
                raise ClientError({"Error": {"Code": found, "Message": "a text of the server's"}}, call)
            return found

        return answer


def look(
    *rules: dict[str, Any], versioning: Any = None, lock: Any = "ObjectLockConfigurationNotFoundError"
) -> DeletionEffect:
    lifecycle: Any = {"Rules": list(rules)} if rules else "NoSuchLifecycleConfiguration"
    client = S3Client(
        get_bucket_versioning={"Status": "Enabled"} if versioning is None else versioning,
        get_bucket_lifecycle_configuration=lifecycle,
        get_object_lock_configuration=lock,
    )
    return S3BucketInspector(lambda: client, "b", "/root/").look(PREFIXES)


def expiry(days: int, prefix: str = "", **more: Any) -> dict[str, Any]:
    noncurrent = {"NoncurrentDays": days, **more.pop("noncurrent", {})}
    return {"Status": "Enabled", "Filter": {"Prefix": prefix}, "NoncurrentVersionExpiration": noncurrent, **more}


@pytest.mark.parametrize(
    ("rules", "freed", "days"),
    [
        ([], Freed.NEVER, None),
        ([expiry(7)], Freed.LATER, 7),
        ([expiry(7, Filter={})], Freed.LATER, 7),
        ([{k: v for k, v in expiry(7).items() if k != "Filter"} | {"Prefix": "root/"}], Freed.LATER, 7),
        ([expiry(7, "root/"), expiry(3, "root/kp/")], Freed.LATER, 7),
        ([expiry(7, "root/kp/"), expiry(30, "root/old/")], Freed.LATER, 30),
        ([expiry(7, "root/kp/")], Freed.NEVER, None),
        ([expiry(7, "kp/"), expiry(7, "old/")], Freed.NEVER, None),
        ([expiry(7, Status="Disabled")], Freed.NEVER, None),
        ([expiry(7, Filter={"Tag": {"Key": "a", "Value": "b"}})], Freed.NEVER, None),
        ([expiry(7, Filter={"And": {"Prefix": "", "ObjectSizeLessThan": 5}})], Freed.NEVER, None),
        ([expiry(7, noncurrent={"NewerNoncurrentVersions": 1})], Freed.NEVER, None),
        ([{"Status": "Enabled", "Filter": {}, "Expiration": {"Days": 1}}], Freed.NEVER, None),
    ],
)
def test_only_a_rule_that_expires_every_version_everywhere_counts(
    rules: list[dict[str, Any]], freed: Freed, days: int | None
) -> None:
    effect = look(*rules)
    assert (effect.freed, effect.days) == (freed, days)


def test_no_rule_frees_versions_under_mfa_delete() -> None:
    effect = look(expiry(7), versioning={"Status": "Enabled", "MFADelete": "Enabled"})
    assert effect.freed is Freed.NEVER
    assert "with MFA delete" in effect.sentence
    assert "switch MFA delete off" in effect.sentence


def test_what_s3_keeps_and_for_how_long_is_said() -> None:
    assert look(versioning={}).sentence == "deletion frees space at once: bucket b has never kept versions"
    assert look(expiry(7), versioning={"Status": "Suspended"}).sentence == (
        "deleted objects are hidden, freed in 7 days: versioning of bucket b is suspended, and a lifecycle rule expires "
        "noncurrent versions"
    )
    never = look().sentence
    assert never.startswith(
        "deleted objects are hidden, never freed: versioning of bucket b is enabled; set a lifecycle rule"
    )
    years = {"ObjectLockConfiguration": {"Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Years": 2}}}}
    assert look(expiry(7), lock=years).days == 730
    assert look(expiry(7), lock={"ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled"}}).days == 7


@pytest.mark.parametrize("code", ["AccessDenied", "NotImplemented", "no answer"])
def test_what_may_not_be_read_is_said_and_refuses_nothing(code: str) -> None:
    effect = look(versioning=code)
    assert effect.freed is Freed.UNKNOWN
    assert "get_bucket_versioning" in effect.sentence
    assert "secret-host" not in effect.sentence
    assert "a text of" not in effect.sentence
    effect.require_freed(())
    client = S3Client(get_bucket_versioning={"Status": "Enabled"}, get_bucket_lifecycle_configuration=code)
    found = S3BucketInspector(lambda: client, "b").look(PREFIXES)
    assert found.freed is Freed.NEVER
    assert "whether a lifecycle rule expires noncurrent versions is not known" in found.sentence
    assert "not known" in found.uploads


def test_incomplete_multipart_uploads_are_somebodys_business() -> None:
    abort = {"Status": "Enabled", "Filter": {}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 3}}
    assert (
        look(abort, versioning={}).uploads
        == "incomplete multipart uploads are aborted after 3 days by a lifecycle rule"
    )
    assert "set one with AbortIncompleteMultipartUpload" in look(versioning={}).uploads


def gcs(
    *,
    versioned: bool = False,
    soft_days: int = 0,
    rules: Any = (),
    retention_s: int | None = None,
    held: bool | None = None,
    objects: Sequence[tuple[str, str]] | Exception = (),
) -> DeletionEffect:
    def list_blobs(prefix: str, max_results: int) -> list[Any]:
        assert max_results == 1_000
        if isinstance(objects, Exception):
            raise objects
        holds = ("temporary_hold", "event_based_hold")
        return [
            SimpleNamespace(name=name, **{hold: hold == by or None for hold in holds})
            for name, by in objects
            if name.startswith(prefix)
        ]

    bucket = SimpleNamespace(
        name="b",
        versioning_enabled=versioned,
        lifecycle_rules=rules,
        soft_delete_policy=SimpleNamespace(retention_duration_seconds=soft_days * 86_400),
        retention_period=retention_s,
        default_event_based_hold=held,
        list_blobs=list_blobs,
    )
    return GcsBucketInspector(lambda: bucket, "root").look(PREFIXES)


def google_rule(kind: str = "Delete", **condition: Any) -> dict[str, Any]:
    return {"action": {"type": kind}, "condition": condition}


def test_googles_buckets_keep_versions_and_what_is_softly_deleted() -> None:
    assert gcs().freed is Freed.AT_ONCE
    assert (gcs(soft_days=7).freed, gcs(soft_days=7).days) == (Freed.LATER, 7)
    assert gcs(versioned=True).freed is Freed.NEVER
    rule = google_rule(daysSinceNoncurrentTime=5, isLive=False)
    assert (gcs(versioned=True, rules=[rule], soft_days=7).freed, gcs(versioned=True, rules=[rule]).days) == (
        Freed.LATER,
        5,
    )
    assert gcs(versioned=True, rules=[google_rule(daysSinceNoncurrentTime=0)]).freed is Freed.LATER
    assert gcs(versioned=True, rules=[google_rule(daysSinceNoncurrentTime=5, numNewerVersions=2)]).freed is Freed.NEVER
    assert (
        gcs(versioned=True, rules=[google_rule(daysSinceNoncurrentTime=5, matchesPrefix=["kp/"])]).freed is Freed.NEVER
    )
    assert gcs(versioned=True, rules=[google_rule("SetStorageClass", age=5)]).freed is Freed.NEVER
    assert "aborted after 2 days" in gcs(rules=[google_rule("AbortIncompleteMultipartUpload", age=2)]).uploads


def test_what_a_bucket_of_google_refuses_is_told_beforehand() -> None:
    held = gcs(held=True, soft_days=7)
    assert held.needs_person
    with pytest.raises(HiddenCopiesError, match=r"holds each object that is written.*'versioned_bucket'"):
        held.require_freed(())
    for kept in (gcs(retention_s=7 * 86_400), gcs(retention_s=1, versioned=True), gcs(retention_s=1, soft_days=7)):
        assert kept.needs_person
        assert "refuses to delete objects that are younger than" in kept.sentence
    gcs(retention_s=7 * 86_400).require_freed(())
    assert not gcs(retention_s=0, soft_days=7).needs_person


@pytest.mark.parametrize("hold", ["temporary_hold", "event_based_hold"])
def test_objects_that_google_holds_are_named_and_stop_no_other_deletion(hold: str) -> None:
    effect = gcs(objects=[("root/kp/a", hold), ("root/kp/b", ""), ("root/old/c", ""), ("elsewhere", hold)])
    assert effect.needs_person
    assert "refuses to delete objects that are held, 1 of 3 that were looked at, such as root/kp/a: " in effect.sentence
    effect.require_freed(())
    free = gcs(objects=[("root/kp/b", "")])
    assert (free.freed, free.needs_person) == (Freed.AT_ONCE, False)


def test_objects_of_google_that_may_not_be_listed_are_said() -> None:
    effect = gcs(objects=RuntimeError("very-s3cret"))
    assert (effect.freed, effect.needs_person) == (Freed.AT_ONCE, False)
    assert effect.why.endswith("whether objects are held is not known (RuntimeError): it needs storage.objects.list")


class AzureError(Exception):
    """As azure-core raises it: with a code, and a text that is not to be repeated."""

    error_code = "AuthorizationPermissionMismatch"


class Pages:
    """A listing of Azure's client, page by page."""

    def __init__(self, pages: list[list[Any]]) -> None:
        self._pages = list(pages)
        self.continuation_token = ""

    def __iter__(self) -> Pages:
        return self

    def __next__(self) -> list[Any]:
        if not self._pages:
            raise StopIteration
        page = self._pages.pop(0)
        self.continuation_token = "more" if self._pages else ""
        return page


class Azure:
    """
    A ``BlobServiceClient`` with the one container ``c``.

    :param container: what its properties say.
    :param pages: below which prefix what is listed: names, ``name@snapshot`` for snapshots.
    :param soft_days: of soft delete, ``None`` where it is off.
    :param refuses: calls that are refused.
    """

    def __init__(
        self,
        container: dict[str, Any] | None = None,
        pages: dict[str, list[list[str]]] | None = None,
        soft_days: int | None = None,
        refuses: str = "",
    ) -> None:
        nothing = dict.fromkeys(("has_legal_hold", "has_immutability_policy"), False)
        self._properties = nothing | {"immutable_storage_with_versioning_enabled": None} | (container or {})
        self._pages, self._soft_days, self._refuses = pages or {}, soft_days, refuses
        self.account: dict[str, Any] = {}

    def _may(self, call: str) -> None:
        if call in self._refuses:
            raise AzureError("a text of the server's")

    def get_container_client(self, container: str) -> Azure:
        assert container == "c"
        return self

    def get_container_properties(self) -> Any:
        self._may("container")
        return SimpleNamespace(**self._properties)

    def get_service_properties(self) -> Any:
        self._may("service")
        policy = SimpleNamespace(enabled=self._soft_days is not None, days=self._soft_days)
        return {"delete_retention_policy": policy}

    def list_blobs(self, name_starts_with: str, include: list[str], results_per_page: int) -> Any:
        self._may("list")
        assert (include, results_per_page) == (["snapshots"], 5_000)
        parts = [[blob.partition("@") for blob in page] for page in self._pages.get(name_starts_with, [])]
        pages = [[SimpleNamespace(name=n, snapshot=at or None) for n, _, at in page] for page in parts]
        return SimpleNamespace(by_page=lambda: Pages(pages))

    def get_account_information(self) -> Any:
        self._may("account")
        return self.account

    def look(self) -> DeletionEffect:
        return AzureContainerInspector(lambda: self, "c", "root").look(PREFIXES)


def test_azures_accounts_tell_of_soft_delete() -> None:
    soft = Azure(soft_days=14).look()
    assert (soft.freed, soft.days) == (Freed.LATER, 14)
    unknown = Azure().look()
    assert unknown.freed is Freed.UNKNOWN
    assert unknown.sentence == (
        "whether deletion frees space is not known: the account has no soft delete; its settings do not tell of versions; "
        "none of 0 blobs has a snapshot"
    )
    versions = by_versions("az", ["2026-01-01T00:00:00Z"])
    assert together(soft, versions).freed is Freed.NEVER
    assert together(soft, by_versions("az", [None])) == soft


@pytest.mark.parametrize(
    ("container", "freed", "said"),
    [
        (
            {"has_legal_hold": True},
            Freed.REFUSED,
            "container c has a legal hold.*'az storage container legal-hold clear'",
        ),
        ({"has_immutability_policy": True}, Freed.REFUSED, "before its retention ends.*immutability-policy show"),
        ({"has_legal_hold": True, "has_immutability_policy": True}, Freed.REFUSED, "a legal hold"),
        (
            {"immutable_storage_with_versioning_enabled": True, "has_immutability_policy": True},
            Freed.NEVER,
            "keeps each blob that is deleted as a version.*previous versions",
        ),
    ],
)
def test_what_a_container_of_azure_refuses_is_told_beforehand(
    container: dict[str, Any], freed: Freed, said: str
) -> None:
    effect = Azure(container, soft_days=14).look()
    assert (effect.freed, effect.needs_person) == (freed, True)
    for versions in ([None], ["2026"]):
        assert together(effect, by_versions("az", versions)) == effect
    with pytest.raises(HiddenCopiesError, match=rf"{said}.*Nothing is deleted.*'versioned_bucket'"):
        effect.require_freed(())
    effect.require_freed({"versioned_bucket"})


def test_blobs_with_snapshots_are_named_and_stop_no_other_deletion() -> None:
    pages = {"root/kp/": [["root/kp/a@1", "root/kp/a@2", "root/kp/a", "root/kp/b"]], "root/old/": [["root/old/c"]]}
    effect = Azure(pages=pages, soft_days=14).look()
    assert "1 of 3 blobs has snapshots" in effect.why
    assert effect.sentence.endswith(
        ". Azure refuses to delete a blob that has snapshots, such as root/kp/a: delete them by 'az storage blob delete "
        "--delete-snapshots only'"
    )
    assert effect.needs_person
    assert together(effect, by_versions("az", ["2026"])).refused
    effect.require_freed(())
    more = Azure(pages={"root/kp/": [["root/kp/a"], ["root/kp/b@1"]]}, soft_days=14).look()
    assert "none of the first 1 blobs has a snapshot" in more.why
    assert not more.needs_person


@pytest.mark.parametrize(
    ("refuses", "said"),
    [
        ("container", r"whether container c has a legal hold or an immutability policy is not known .*containers/read"),
        ("service", r"whether soft delete keeps what is deleted is not known .*blobServices/read"),
        ("list", r"whether blobs have snapshots is not known .*the right to list"),
    ],
)
def test_what_azure_does_not_let_one_see_is_said_with_the_right(refuses: str, said: str) -> None:
    effect = Azure(refuses=refuses).look()
    assert effect.freed is Freed.UNKNOWN
    assert re.search(said, Azure(refuses=refuses, soft_days=7).look().sentence)
    assert re.search(said, effect.sentence)
    assert "(AzureError, AuthorizationPermissionMismatch)" in effect.sentence
    assert "a text of" not in effect.sentence
    assert re.search(said, together(effect, by_versions("az", [None])).sentence)
    effect.require_freed(())


@pytest.mark.parametrize(
    ("account", "is_flat"), [({"is_hns_enabled": False}, True), ({"is_hns_enabled": True}, False), ({}, False)]
)
def test_an_account_of_azure_is_flat_only_where_it_says_so(account: dict[str, Any], is_flat: bool) -> None:
    for refuses in ("", "account"):
        service = Azure(refuses=refuses)
        service.account = account
        told = AzureContainerInspector(lambda service=service: service, "c").is_flat()
        assert told == (is_flat and not refuses)


def test_a_signature_of_the_container_asks_by_the_container() -> None:
    container = Azure()
    container.account = {"is_hns_enabled": False}

    def refuse() -> Any:
        raise AzureError("a text of the server's")

    service = SimpleNamespace(get_account_information=refuse, get_container_client=lambda _: container)
    assert AzureContainerInspector(lambda: service, "c").is_flat()


def test_without_a_client_of_azure_what_nobody_asks_is_said() -> None:
    effect = without_settings("az", by_versions("az", [None]))
    assert "a legal hold, an immutability policy or snapshots" in effect.sentence
    assert "a connection of type wasb asks" in effect.sentence
    aws = by_versions("s3", [None])
    assert without_settings("s3", aws) == aws


def test_clients_that_fail_say_only_their_class() -> None:
    def fail() -> Any:
        raise RuntimeError("very-s3cret")

    for inspector in (S3BucketInspector(fail, "b"), GcsBucketInspector(fail), AzureContainerInspector(fail, "c")):
        effect = inspector.look(PREFIXES)
        assert effect.freed is Freed.UNKNOWN
        assert "RuntimeError" in effect.why
        assert "s3cret" not in effect.why


@pytest.mark.parametrize(
    ("scheme", "versions", "freed"),
    [
        ("file", [], Freed.AT_ONCE),
        ("memory", [], Freed.AT_ONCE),
        ("s3", [], Freed.UNKNOWN),
        ("s3", [None, None], Freed.UNKNOWN),
        ("s3", [None, "null"], Freed.NEVER),
        ("az", ["2026"], Freed.NEVER),
        ("gs", ["1690000000"], Freed.UNKNOWN),
        ("http", ["1"], Freed.UNKNOWN),
    ],
)
def test_what_version_ids_tell(scheme: str, versions: list[str | None], freed: Freed) -> None:
    assert by_versions(scheme, versions).freed is freed


def test_what_is_kept_for_good_needs_the_override() -> None:
    effect = by_versions("s3", ["1"])
    with pytest.raises(HiddenCopiesError, match=r"never freed.*NoncurrentVersionExpiration.*'versioned_bucket'"):
        effect.require_freed(frozenset({"move_stamp"}))
    effect.require_freed(frozenset({"versioned_bucket"}))
