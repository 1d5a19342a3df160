# SPDX-License-Identifier: Apache-2.0
"""Breaks the era of the log: whether anything is written where records have keys, or may be compacted."""

from __future__ import annotations

from tests.mutations.mutation import WRITE_GUARD, Mutation, switched_off

ERA = "core/log/era.py"
FLOORED_LOG = "core/log/floored_log.py"
FLOORS = "core/log/floors.py"
KEYS = "core/records/keys.py"
_FLOOR = "core/log/test_floored_log.py::"
_GUARD = "core/log/test_write_guard.py::"
_ONCE = f"{_FLOOR}test_a_topic_that_was_compacted_once_stays_compacted"
_KEY = f"{_FLOOR}test_a_key_that_names_its_record_is_seen_and_remembered_and_no_reason_for_less_than_compaction"

ERAS = [
    switched_off(
        WRITE_GUARD,
        "I22",
        "the guard writes whatever the era is",
        "        if (why := era.why_not_written()) is not None:",
        f"{_GUARD}test_nothing_is_changed_where_records_have_keys_or_may_be_compacted",
    ),
    Mutation(
        "I22",
        "a log that nobody remembers is plain",
        WRITE_GUARD,
        "era_of_policy(self._log.cleanup_policy()) if",
        'era_of_policy({"delete"}) if',
        f"{_GUARD}test_where_nobody_remembers_the_log_its_configuration_is_asked_each_time",
    ),
    Mutation(
        "I22",
        "a topic that has keys and is not compacted may be written to",
        ERA,
        "        if self.era is Era.PLAIN:",
        "        if self.era is not Era.COMPACTED:",
        f"{_GUARD}test_nothing_is_changed_where_records_have_keys_or_may_be_compacted",
    ),
    Mutation(
        "I22",
        "a topic that is compacted and deleted from is plain",
        ERA,
        "if COMPACT in names else PLAIN_ERA",
        "if names == [COMPACT] else PLAIN_ERA",
        _ONCE,
    ),
    Mutation(
        "I22",
        "a run forgets the era that an earlier one has seen",
        FLOORED_LOG,
        "        era = now.or_later(before)\n",
        "        era = now\n",
        _ONCE,
    ),
    switched_off(
        FLOORED_LOG,
        "I22",
        "the era is not written down",
        "        if self.era.era > self._kept_era:",
        _ONCE,
    ),
    Mutation(
        "I22",
        "the era of another metadata topic counts",
        FLOORS,
        "            if (m := _ERA.fullmatch(name)) and m[1] == str(topic_id):",
        "            if m := _ERA.fullmatch(name):",
        f"{_FLOOR}test_another_metadata_topic_has_an_era_of_its_own",
    ),
    switched_off(
        FLOORED_LOG,
        "I22",
        "keys that are read show nothing",
        "        if self.era.era is Era.PLAIN:",
        _KEY,
    ),
    Mutation(
        "I22",
        "keys of a metadata partition that has lost records are not looked at",
        FLOORED_LOG,
        "        if self.era.era is Era.PLAIN:",
        "        if self.era.era is Era.PLAIN and number not in self._fixed:",
        f"{_FLOOR}test_a_key_is_seen_where_what_was_read_is_lost_too",
    ),
    Mutation(
        "I22",
        "a key that names another record shows that brokers write keys",
        ERA,
        "        return key.names(deserialize(value))\n",
        "        return True\n",
        _KEY,
    ),
    Mutation(
        "I22",
        "a run for real goes on though nobody can tell whether the topic may be compacted",
        FLOORED_LOG,
        '    except EventLogAccessError as e:\n        if not dry_run:\n            raise\n        logger.warning("whether',
        '    except EventLogAccessError as e:\n        logger.warning("whether',
        f"{_FLOOR}test_where_the_configuration_may_not_be_read_a_run_for_real_ends_and_a_dry_run_says_so",
    ),
    Mutation(
        "I22",
        "a key of another text for the same number is the same key",
        KEYS,
        "    return parsed if bytes(parsed) == key else None\n",
        "    return parsed\n",
        "core/records/test_keys.py::test_what_is_of_neither_design_is_no_key",
    ),
    Mutation(
        "I22",
        "a key names a record of another user partition",
        KEYS,
        "            (tip.topic_id, tip.topic, tip.partition) == (self.topic_id, self.topic, self.partition)\n",
        "            (tip.topic_id, tip.topic) == (self.topic_id, self.topic)\n",
        "core/records/test_keys.py::test_a_key_names_what_its_record_names_as_far_as_both_do",
    ),
]
