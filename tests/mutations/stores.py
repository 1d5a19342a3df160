# SPDX-License-Identifier: Apache-2.0
"""Mutations of the rules for what stores do wrong: throttling, single refusals, buckets that keep what is deleted."""

from __future__ import annotations

from tests.mutations.mutation import BATCHES, ELIGIBILITY, GUARDS, Mutation, switched_off

BULK_DELETE = "core/storage/bulk_delete.py"
PACE = "core/storage/pace.py"
HIDDEN_COPIES = "core/storage/hidden_copies.py"
BUCKET_SETTINGS = "core/storage/bucket_settings.py"
AZURE_SETTINGS = "core/storage/azure_settings.py"
DELETION_WINDOW = "core/plans/deletion_window.py"

_FAULTS = "core/storage/test_faults.py::"
_SETTINGS = "core/storage/test_bucket_settings.py::"
_VENDORS = "core/storage/test_vendor_settings.py::"

STORES = [
    switched_off(
        BULK_DELETE,
        "own reason",
        "does not ask singly why an object stays",
        "            if made.one_by_one and size > 1:",
        f"{_FAULTS}test_objects_that_a_bulk_deletion_refuses_stay_for_their_own_reason",
    ),
    switched_off(
        BULK_DELETE,
        "bounded",
        "tries every refused object singly, however many there are",
        "        if self._refused_requests >= _MAX_REFUSED_REQUESTS:",
        "core/storage/test_bulk_delete.py::test_where_all_are_refused_requests_are_bounded_and_nobody_is_without_a_reason",
    ),
    Mutation(
        "throttling",
        "sends requests side by side to a store that has throttled",
        BULK_DELETE,
        "        return self._at_once if self._pace.rate is None else 1",
        "        return self._at_once",
        "core/storage/test_bulk_delete.py::test_requests_are_under_way_at_the_same_time_until_the_store_throttles",
    ),
    Mutation(
        "throttling",
        "asks a store that throttles as often as before",
        PACE,
        "too_much * DECREASE)",
        "too_much)",
        "core/storage/test_pace.py",
    ),
    Mutation(
        "throttling",
        "takes all that S3 allows, which brokers need for their uploads",
        PACE,
        "        return min((bound for bound in (self._rate, self._most) if bound is not None), default=None)",
        "        return self._rate",
        "core/storage/test_pace.py::test_s3_itself_is_not_asked_for_all_that_it_takes",
    ),
    Mutation(
        "throttling",
        "goes on with the next batch when the store throttles",
        BATCHES,
        "(why := self._throttled or gate",
        "(why := gate",
        f"{_FAULTS}test_a_storm_of_slow_down_ends_the_run_and_loses_nothing",
    ),
    switched_off(
        BATCHES,
        "throttling",
        "asks storage that does not answer for every user partition",
        "        if self._unanswered >= _MOST_UNANSWERED:",
        "features/cleanup/test_batches.py::test_storage_that_answers_nobody_is_not_asked_for_every_partition",
    ),
    Mutation(
        "throttling",
        "calls a person for what a store that throttles has left",
        BATCHES,
        "deletion.outcome is DeleteOutcome.PRESENT and not deletion.throttled",
        "deletion.outcome is DeleteOutcome.PRESENT",
        f"{_FAULTS}test_a_storm_of_slow_down_ends_the_run_and_loses_nothing",
    ),
    switched_off(
        HIDDEN_COPIES,
        "hidden copies",
        "deletes where nothing ever frees what is deleted",
        "        if self.freed in (Freed.NEVER, Freed.REFUSED) and VERSIONED_BUCKET not in overrides:",
        f"{_FAULTS}test_a_bucket_that_keeps_versions_for_good_is_refused_without_the_override",
    ),
    Mutation(
        "hidden copies",
        "takes a suspended bucket for one without versions",
        BUCKET_SETTINGS,
        "        if status is None:",
        '        if status != "Enabled":',
        f"{_FAULTS}test_a_bucket_that_keeps_versions_for_good_is_refused_without_the_override",
    ),
    Mutation(
        "hidden copies",
        "takes an object lock that may not be read for none",
        BUCKET_SETTINGS,
        "        if problem := lock.get(_PROBLEM):",
        "        if problem := None:",
        "core/storage/test_login_settings.py::test_a_lock_that_may_not_be_read_is_not_taken_for_none",
    ),
    Mutation(
        "hidden copies",
        "takes a rule that keeps the newest versions for one that frees them",
        BUCKET_SETTINGS,
        '    return None if expiry.get("NewerNoncurrentVersions") else expiry',
        "    return expiry",
        "core/storage/test_bucket_settings.py",
    ),
    Mutation(
        "hidden copies",
        "takes a rule for some of the objects for one for all",
        BUCKET_SETTINGS,
        'chosen.keys() <= {"Prefix"} and prefix.startswith(chosen.get("Prefix", ""))',
        'prefix.startswith(chosen.get("Prefix", ""))',
        "core/storage/test_bucket_settings.py",
    ),
    switched_off(
        AZURE_SETTINGS,
        "hidden copies",
        "deletes in a container with a legal hold",
        "        if held:",
        f"{_SETTINGS}test_what_a_container_of_azure_refuses_is_told_beforehand",
    ),
    switched_off(
        AZURE_SETTINGS,
        "hidden copies",
        "deletes in a container with an immutability policy",
        "        if policy:",
        f"{_SETTINGS}test_what_a_container_of_azure_refuses_is_told_beforehand",
    ),
    Mutation(
        "hidden copies",
        "says nothing of what it may not ask of a container",
        AZURE_SETTINGS,
        'return None, f"{known}: {_CONTAINER_RIGHT}"',
        'return None, ""',
        f"{_SETTINGS}test_what_azure_does_not_let_one_see_is_said_with_the_right",
    ),
    Mutation(
        "hidden copies",
        "takes blobs with snapshots for ones that can be deleted",
        AZURE_SETTINGS,
        "(blobs if blob.snapshot is None else kept)",
        "blobs",
        f"{_SETTINGS}test_blobs_with_snapshots_are_named_and_stop_no_other_deletion",
    ),
    Mutation(
        "hidden copies",
        "asks no object where the settings cannot be read",
        ELIGIBILITY,
        "    if effect.freed is not Freed.NEVER:",
        "    if True:",
        f"{_FAULTS}test_versions_that_only_the_deleted_topic_has_refuse_its_partitions",
    ),
    Mutation(
        "rate of a run",
        "each task deletes as much in a second as the whole run may",
        "operators/cleaner.py",
        "                at_once=self._at_once(summary),\n",
        "",
        "airflow/operators/test_operators.py::test_the_tasks_that_clean_at_once_share_the_rate_of_the_run",
    ),
    Mutation(
        "minutes of a run",
        "a run that has begun deletes until all is gone",
        BATCHES,
        "            self.out_of_time = gate.why_over()",
        "            self.out_of_time = None",
        "features/cleanup/test_limits_of_deletion.py",
    ),
    Mutation(
        "minutes of a run",
        "each task of a run has the minutes of the whole run",
        "features/cleanup/cleaning_time.py",
        "        return known.began_at_ms",
        "        pass",
        "features/cleanup/test_cleaning_time.py",
    ),
    Mutation(
        "deletion window",
        "deletes at any time of day",
        GUARDS,
        '        return DeletionWindow.of("deletion_window", self.deletion_window).why_closed(now_ms)',
        "        return None",
        "features/cleanup/test_limits_of_deletion.py",
    ),
    Mutation(
        "deletion window",
        "reads the clock of another zone",
        DELETION_WINDOW,
        ".astimezone(self.zone)",
        ".astimezone(UTC)",
        "core/plans/test_deletion_window.py",
    ),
    Mutation(
        "hidden copies",
        "takes a bucket of Google that holds its objects for one that lets them go",
        BUCKET_SETTINGS,
        "        effect = _of_held_bucket(name) if held else ",
        "        effect = _of_held_bucket(name) if False else ",
        f"{_VENDORS}test_a_hold_of_google_refuses_a_run_and_a_retention_policy_is_told",
    ),
    Mutation(
        "hidden copies",
        "takes objects of Google's that may not be listed for objects without a hold",
        BUCKET_SETTINGS,
        '        return f"whether objects are held is not known ({type(e).__name__}): it needs storage.objects.list", ""\n',
        '        return "", ""\n',
        f"{_SETTINGS}test_objects_of_google_that_may_not_be_listed_are_said",
    ),
    Mutation(
        "hidden copies",
        "passes over a retention policy of Google's",
        BUCKET_SETTINGS,
        'days=kept_days) if kept_days else ""',
        'days=kept_days) if False else ""',
        f"{_VENDORS}test_a_hold_of_google_refuses_a_run_and_a_retention_policy_is_told",
    ),
    Mutation(
        "hidden copies",
        "takes any answer for a bucket of Google's without versions",
        "core/storage/logins/google_client.py",
        '        if told["name"] != name:\n            raise KeyError\n',
        "",
        f"{_VENDORS}test_an_answer_that_is_no_bucket_tells_nothing",
    ),
    Mutation(
        "hidden copies",
        "takes a container of Azure that tells of no hold for one that has none",
        "core/storage/logins/azure_client.py",
        "        if found.has_legal_hold is None or found.has_immutability_policy is None:\n",
        "        if False:\n",
        f"{_VENDORS}test_what_azure_does_not_let_the_login_see_is_said",
    ),
    Mutation(
        "secrets",
        "follows a redirection with the credentials of the store",
        "core/storage/logins/plain_http.py",
        ", _NoRedirection())",
        ")",
        f"{_VENDORS}test_an_answer_that_is_no_bucket_tells_nothing",
    ),
    Mutation(
        "logins",
        "asks a machine of Google for its role to read a bucket's settings",
        "core/storage/logins/google_client.py",
        "    if key is None and not instance_metadata:\n",
        "    if False:\n",
        f"{_VENDORS}test_the_role_of_a_machine_asks_google_only_where_that_is_allowed",
    ),
]
