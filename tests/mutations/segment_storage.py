# SPDX-License-Identifier: Apache-2.0
"""Mutations of the rules for reading what a plugin has packed, and for writing a segment's files."""

from __future__ import annotations

from tests.mutations.mutation import LAYOUT_STORAGE, Mutation, switched_off

AIVEN_MANIFEST = "core/storage/aiven_manifest.py"
AIVEN_FILES = "core/storage/aiven_files.py"

CLI_ACCESS = "cli/access.py"
AWS_LOGIN = "core/storage/logins/aws.py"
AWS_CLIENT = "core/storage/logins/aws_client.py"
LISTING_ORDER = "core/storage/listing_order.py"
LOCAL_FILES = "core/storage/local_files.py"
OBJECT_STORE = "core/storage/object_store.py"
UPLOADS = "core/storage/uploads.py"

_FOLDERS = "core/storage/test_object_store.py::"
_MANIFESTS = "core/storage/test_aiven_manifest.py::"
_LOGINS = "core/storage/test_logins.py::"
_LOGIN_SETTINGS = "core/storage/test_login_settings.py::"
_ORDER = "core/storage/test_listing_order.py::"
_PACKING = "core/storage/test_aiven_packing.py::"
_PATTERNS = "core/storage/test_key_pattern.py::"

SEGMENT_STORAGE = [
    Mutation(
        "listings",
        "believes the order of an account that may have folders",
        LAYOUT_STORAGE,
        "            by_key = self.inspector is not None and self.inspector.is_flat()\n",
        "            pass\n",
        f"{_ORDER}test_an_account_of_azure_lists_by_key_only_where_it_says_that_it_is_flat",
    ),
    Mutation(
        "listings",
        "begins a listing behind a key where the store may have folders",
        LAYOUT_STORAGE,
        "        return ListingOrder(by_key, location.scheme not in ONLY_FLAT)",
        "        return ListingOrder(by_key)",
        f"{_ORDER}test_a_listing_begins_behind_a_key_only_where_keys_are_what_counts",
    ),
    Mutation(
        "listings",
        "takes an account that does not tell whether it has folders for one without",
        "core/storage/azure_settings.py",
        "                return told is False\n        return False\n",
        "                return told is False\n        return True\n",
        "core/storage/test_bucket_settings.py::test_an_account_of_azure_is_flat_only_where_it_says_so",
    ),
    Mutation(
        "listings",
        "takes a listing that broke off for a whole one",
        "core/storage/listings_ahead.py",
        "            if isinstance(page, BaseException):\n                raise page\n",
        "            if isinstance(page, BaseException):\n                return\n",
        "core/storage/test_listings_ahead.py::test_a_listing_that_breaks_off_tells_what_it_has_seen_and_why",
    ),
    Mutation(
        "bulk deletions",
        "leaves all objects where a gateway knows no bulk deletion",
        OBJECT_STORE,
        "            if knows_no_bulk_deletion(str(e)) and self._gives_up_bulk(store, why):\n",
        "            if False:\n",
        "core/storage/test_s3.py::test_a_gateway_without_bulk_deletion_is_asked_for_each_object",
    ),
    Mutation(
        "bulk deletions",
        "forgets which files were refused before the last ones",
        OBJECT_STORE,
        "            failures |= failed\n        return DeleteCalls(failures, frozenset(keys))\n",
        "            failures = dict(failed)\n        return DeleteCalls(failures, frozenset(keys))\n",
        f"{_FOLDERS}test_each_refused_file_is_said_wherever_it_lies_in_a_batch",
    ),
    Mutation(
        "logins",
        "asks the machine for its role unasked",
        AWS_LOGIN,
        '        session.get_component("credential_provider").remove("iam-role")\n',
        "",
        f"{_LOGINS}test_the_machine_is_not_asked_for_its_role",
    ),
    Mutation(
        "logins",
        "lets obstore ask the machine for its role unasked",
        AWS_LOGIN,
        "    if instance_metadata:\n",
        "    if True:\n",
        f"{_LOGINS}test_no_credentials_is_a_sentence_and_no_address_is_asked",
    ),
    Mutation(
        "logins",
        "passes over what leads to another address",
        AWS_LOGIN,
        "    if unheeded:\n",
        "    if False:\n",
        f"{_LOGINS}test_what_obstore_cannot_do_is_refused",
    ),
    Mutation(
        "logins",
        "asks a host for credentials and does not say so",
        AWS_LOGIN,
        '    session.register("before-send", tell)\n',
        "",
        f"{_LOGINS}test_a_role_of_a_profile_is_assumed_and_the_host_is_told",
    ),
    Mutation(
        "logins",
        "asks for a bucket's settings where an answer leads, and not where the store is",
        AWS_CLIENT,
        "    _stay_at(client, bucket)\n",
        "",
        f"{_LOGIN_SETTINGS}test_no_other_host_is_asked_than_the_store",
    ),
    Mutation(
        "logins",
        "asks the machine for its role to read a bucket's settings",
        AWS_CLIENT,
        "    if not instance_metadata or option(",
        "    if option(",
        f"{_LOGIN_SETTINGS}test_the_machine_is_asked_for_its_role_only_where_that_is_allowed",
    ),
    Mutation(
        "hidden copies",
        "reads no settings of a bucket by the login of the command",
        CLI_ACCESS,
        "    return access, inspector_of_login(uri, options, access)",
        "    return access, None",
        "cli/test_login.py::test_check_tells_by_the_login_of_the_store_whether_deletion_frees_space",
    ),
    Mutation(
        "listings",
        "believes of any store that what an early look has not shown is gone",
        LISTING_ORDER,
        "(only_seen or self.is_trusted or not (to_the_end or unseen))",
        "True",
        f"{_ORDER}test_any_other_store_is_read_to_the_end_where_something_is_to_be_absent",
    ),
    Mutation(
        "listings",
        "believes looks side by side that something is not there, in a store without an order",
        LAYOUT_STORAGE,
        "        return seen, [rest for lookup in lookups if (rest := lookup.without(stored.key for stored in seen)) is not None]",
        "        return seen, []",
        f"{_ORDER}test_a_segment_that_was_not_seen_before_the_end_is_looked_for_behind_it",
    ),
    Mutation(
        "listings",
        "ends a look before a segment was seen that lies behind it",
        LISTING_ORDER,
        "not (to_the_end or unseen)",
        "not to_the_end",
        f"{_ORDER}test_a_segment_that_was_not_seen_before_the_end_is_looked_for_behind_it",
    ),
    switched_off(
        LISTING_ORDER,
        "listings",
        "trusts an order that was broken",
        "            if stored.key < before and self.is_trusted:",
        f"{_ORDER}test_a_key_below_the_one_before_ends_the_trust",
    ),
    Mutation(
        "listings",
        "believes looks that ended before an order was broken",
        LAYOUT_STORAGE,
        "            if self._order.is_trusted == was_trusted:",
        "            if True:",
        f"{_ORDER}test_looks_that_ended_before_an_order_was_broken_are_made_again",
    ),
    Mutation(
        "listings",
        "takes any server for one that lists by key",
        LISTING_ORDER,
        "        and not _has_address_of_its_own(location)\n",
        "",
        f"{_ORDER}test_only_services_that_say_so_list_by_key",
    ),
    Mutation(
        "listings",
        "takes an access point for a general purpose bucket",
        LISTING_ORDER,
        "        and not location.bucket.endswith(_ALIASES)\n",
        "",
        f"{_ORDER}test_only_services_that_say_so_list_by_key",
    ),
    Mutation(
        "listings",
        "ends listings early where each segment has a folder of its own",
        LISTING_ORDER,
        '        and not any(suffix.startswith("/") for suffix in layout.suffixes)\n',
        "",
        f"{_ORDER}test_segments_with_folders_of_their_own_are_listed_to_the_end",
    ),
    switched_off(
        AIVEN_MANIFEST,
        "own manifest",
        "reads a segment by the manifest of another one",
        "        if found != wanted:",
        f"{_MANIFESTS}test_a_manifest_that_cannot_be_the_segments_is_refused",
    ),
    switched_off(
        AIVEN_FILES,
        "whole objects",
        "takes the rest of an object that was cut for all of it",
        "        if len(data) != stop - start:",
        f"{_MANIFESTS}test_a_log_that_was_cut_is_told_with_its_end",
    ),
    Mutation(
        "encrypted",
        "hands out encrypted bytes as a log",
        AIVEN_MANIFEST,
        'document.get("encryption") is not None',
        "False",
        f"{_MANIFESTS}test_what_is_not_known_here_is_said",
    ),
    switched_off(
        UPLOADS,
        "whole copies",
        "copies a log that is written to meanwhile",
        "    if left:",
        f"{_FOLDERS}test_a_log_that_is_cut_while_it_is_copied_is_refused",
    ),
    Mutation(
        "whole copies",
        "leaves what it wrote of a log when the disk is full",
        OBJECT_STORE,
        'self._made(f"take back {key}", writer.abort)',
        "pass",
        f"{_FOLDERS}test_a_full_disk_is_said_and_nothing_of_the_log_stays",
    ),
    Mutation(
        "whole copies",
        "says that a copy is finished before it is on the disk",
        LOCAL_FILES,
        "        os.fsync(self._file)\n",
        "",
        f"{_FOLDERS}test_a_copy_is_on_the_disk_when_it_ends",
    ),
    Mutation(
        "whole copies",
        "writes into the older file of the same name, and so into its backups",
        LOCAL_FILES,
        "os.unlink(self._name, dir_fd=self._folder)\n            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL",
        "pass\n            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC",
        f"{_FOLDERS}test_a_copy_does_not_write_through_links",
    ),
    Mutation(
        "same root",
        "copies into a root that was replaced meanwhile",
        LAYOUT_STORAGE,
        "        with self._steady():\n            while True:",
        "        if True:\n            while True:",
        f"{_FOLDERS}test_a_root_that_is_replaced_while_a_segment_is_copied_is_an_error",
    ),
    switched_off(
        "core/storage/key_pattern.py",
        "own keys",
        "takes a key with another salt for one of the segment",
        "            if any(salt.of(values) != said[salt.group] for salt in self._salts):",
        f"{_PATTERNS}test_what_is_spelled_otherwise_is_of_no_segment",
    ),
    Mutation(
        "own keys",
        "gives a user partition the folder that a salt of its segments names",
        "core/storage/key_fields.py",
        "        return self.names <= set(OF_THE_PARTITION)",
        "        return True",
        f"{_PATTERNS}test_a_salt_of_a_segment_makes_no_folder_of_the_partition",
    ),
    switched_off(
        "core/storage/key_fields.py",
        "own keys",
        "builds a key of anything that a function of others returns",
        "        if not re.fullmatch(self.expression, found):",
        f"{_PATTERNS}test_key_functions_of_others_are_found_by_their_entry_points",
    ),
    Mutation(
        "own keys",
        "deletes the known files out of a segment's folder and does not see the others",
        "core/storage/layout.py",
        '(text.startswith(".") or in_a_folder)',
        'text.startswith(".")',
        "core/storage/test_s3.py::test_segments_with_folders_of_their_own_are_looked_for_together",
    ),
    Mutation(
        "own keys",
        "lists the folder of each segment by itself",
        "core/storage/deletion.py",
        'parent_of(key.removesuffix(suffix) if suffix.startswith("/") else key)',
        "parent_of(key)",
        "core/storage/test_s3.py::test_segments_with_folders_of_their_own_are_looked_for_together",
    ),
    Mutation(
        "no links",
        "looks for a segment's files behind a link in the place of its folder",
        LOCAL_FILES,
        "for prefix, keys in _by_folder(lookup.keys).items() for",
        "for prefix, keys in {lookup.prefix: lookup.keys}.items() for",
        f"{_FOLDERS}test_a_link_in_the_place_of_a_segments_folder_is_not_followed",
    ),
    Mutation(
        "own packing",
        "copies plain beside encrypted segments",
        "core/storage/aiven_packing.py",
        "        except (UnsupportedMessageFormatError, DamagedObjectError, MalformedMetadataError) as e:\n"
        "            raise _refused(str(e)) from e\n",
        "        except (UnsupportedMessageFormatError, DamagedObjectError, MalformedMetadataError) as e:\n"
        "            continue\n",
        f"{_PACKING}test_one_copy_among_the_newest_that_cannot_be_read_refuses_all",
    ),
    Mutation(
        "own packing",
        "looks at the newest copy alone",
        "core/storage/aiven_packing.py",
        "        if len(found) == LOOKED_AT:\n",
        "        if found:\n",
        f"{_PACKING}test_one_copy_among_the_newest_that_cannot_be_read_refuses_all",
    ),
    Mutation(
        "own packing",
        "believes a copy of its own about how the plugin is set",
        "core/storage/aiven_packing.py",
        "(metadata for metadata in copies if metadata.broker_id >= 0)",
        "(metadata for metadata in copies)",
        f"{_PACKING}test_the_newest_copy_of_a_broker_shows_how_the_plugin_is_set",
    ),
    Mutation(
        "own packing",
        "writes the manifest before the log",
        "core/storage/aiven_packing.py",
        "        stem = self._layout.segment_stem(metadata, self._layout.places[0])\n        chunks: list[int] = []\n",
        "        stem = self._layout.segment_stem(metadata, self._layout.places[0])\n        chunks: list[int] = [1]\n"
        '        yield f"{stem}.rsm-manifest", self._manifest(metadata, {}, chunks)\n',
        f"{_PACKING}test_log_indexes_and_manifest_are_written_in_this_order",
    ),
    switched_off(
        "core/storage/aiven_packing.py",
        "own packing",
        "believes what is said of the plugin against the newest copy",
        "    if said is not None and said.text != found[0].text:",
        f"{_PACKING}test_what_somebody_has_said_must_not_contradict_the_newest_copy",
    ),
    switched_off(
        "core/storage/aiven_packing.py",
        "own packing",
        "copies plain where encryption is said",
        '    if said.get(_ENCRYPTION) == "true":',
        f"{_PACKING}test_settings_that_cannot_be_understood_are_refused",
    ),
    Mutation(
        "faults told right",
        "calls an expired login a store that does not answer",
        OBJECT_STORE,
        " or remedy_of(str(error)) is not None:",
        ":",
        f"{_FOLDERS}test_what_is_wrong_with_who_asks_does_not_pass_and_says_what_helps",
    ),
    Mutation(
        "faults told right",
        "does not say which right a store wants",
        OBJECT_STORE,
        "(right_for(type(self._store).__name__, action) if forbidden else None)",
        "None",
        "core/storage/test_s3.py::test_what_is_forbidden_names_the_right",
    ),
    Mutation(
        "faults told right",
        "leaves out of an answer what says what is wrong",
        "core/storage/secret_texts.py",
        r"(?<=[\w/.~%-])\?[^\s)\"'<]+",
        r"\?[^\s)\"']+",
        f"{_FOLDERS}test_what_is_wrong_with_who_asks_does_not_pass_and_says_what_helps",
    ),
    switched_off(
        "core/storage/opening.py",
        "faults told right",
        "opens a bucket that lists in no order",
        "    if _DIRECTORY_BUCKET.search(urlsplit(where.uri).netloc):",
        "core/storage/test_opening.py::test_directory_buckets_are_refused_by_their_name",
    ),
]
