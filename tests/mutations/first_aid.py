# SPDX-License-Identifier: Apache-2.0
"""Mutations of what a person is told to type where a metadata topic is lost: all topics, and lines that do just that."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

LOOK = "core/log/kafka/tiered_topics.py"
COMMANDS = "features/first_aid/commands.py"
DIRECTORIES = "features/first_aid/log_directories.py"
RULES = "features/first_aid/rules.py"
STEPS = "features/first_aid/steps.py"

_LOOK = "core/log/kafka/test_tiered_topics.py::"
_COMMANDS = "features/first_aid/test_commands.py::"
_DIRECTORIES = "features/first_aid/test_log_directories.py::"
_DISK = "features/first_aid/test_disk.py::"
_STEPS = "features/first_aid/test_first_aid.py::"
_COMMAND = "cli/test_first_aid_command.py::"

FIRST_AID = [
    Mutation(
        "I21",
        "leaves out a topic whose settings may not be described",
        LOOK,
        'not_told[name] = _why(outcome, "DESCRIBE_CONFIGS")',
        "continue",
        _LOOK + "test_a_topic_whose_settings_are_not_told_is_named",
    ),
    Mutation(
        "I21",
        "leaves out a tiered topic that may not be described",
        LOOK,
        'not_told[name] = _why(outcome, "DESCRIBE")',
        "continue",
        _LOOK + "test_a_tiered_topic_that_is_not_described_is_named",
    ),
    Mutation(
        "I18",
        "takes a topic for untiered whose setting is withheld",
        LOOK,
        'settings[TIERED].value != "false"',
        'settings[TIERED].value == "true"',
        _LOOK + "test_a_value_that_is_withheld_is_no_no",
    ),
    Mutation(
        "first aid",
        "takes the broker's value for one of the topic",
        STEPS,
        "told.value if (told := topic.settings[name]).of_topic else None",
        "topic.settings[name].value",
        _STEPS + "test_the_settings_of_today_are_those_of_the_topic_alone",
    ),
    Mutation(
        "I21",
        "does not name topics of the disks that are in no listing",
        STEPS,
        "(directories.topics if directories else frozenset()) - look.listed",
        "frozenset[str]()",
        _STEPS + "test_a_topic_on_the_disks_that_was_not_listed_is_named",
    ),
    Mutation(
        "I21",
        "calls a listing whole though a broker has not told of its disk",
        STEPS,
        "directories is not None and look.brokers <= directories.brokers and not",
        "directories is not None and not",
        _STEPS + "test_a_zero_is_proved_by_the_brokers_disks_or_needs_a_person",
    ),
    Mutation(
        "I21",
        "is green though it has found nothing and nothing shows that all was seen",
        STEPS,
        "bool(self.not_told) or not (self.topics or self.proved_whole)",
        "bool(self.not_told)",
        _STEPS + "test_a_zero_is_proved_by_the_brokers_disks_or_needs_a_person",
    ),
    Mutation(
        "first aid",
        "does not quote the words of a line",
        COMMANDS,
        "return shlex.join(words)",
        'return " ".join(words)',
        _COMMANDS + "test_each_word_arrives_as_it_is",
    ),
    Mutation(
        "first aid",
        "names a topic in a word of its own, where it may read as an option",
        COMMANDS,
        '"topics", f"--entity-name={topic}")',
        '"topics", "--entity-name", topic)',
        _COMMANDS + "test_each_word_arrives_as_it_is",
    ),
    switched_off(
        COMMANDS,
        "first aid",
        "puts a name into a line that no topic can have",
        "        if not _NAME.fullmatch(topic):",
        _COMMANDS + "test_a_name_that_no_topic_can_have_is_in_no_line",
    ),
    Mutation(
        "first aid",
        "forgets on the way back what is not set today",
        COMMANDS,
        "without = [name for name in today if name not in own]",
        "without: list[str] = []",
        _COMMANDS + "test_what_is_set_today_comes_back_and_what_is_not_set_goes",
    ),
    Mutation(
        "first aid",
        "cuts a line that is long",
        "cli/output.py",
        "        if not self.as_json:\n            _write(line)",
        "        if not self.as_json:\n            _write(printable(line, MAX_CELL))",
        _COMMAND + "test_lines_are_printed_whole_and_in_the_order_in_which_they_are_typed",
    ),
    switched_off(
        DIRECTORIES,
        "I18",
        "counts a replica as nothing that no broker tells of",
        "            if (broker, topic, partition) not in self.sizes:",
        _DIRECTORIES + "test_a_replica_that_no_broker_tells_of_is_no_zero",
    ),
    Mutation(
        "I18",
        "believes a broker whose log directory is offline",
        DIRECTORIES,
        'if d["error"]}',
        'if d["error"] == ""}',
        _DIRECTORIES + "test_a_broker_with_a_directory_that_is_offline_does_not_tell_all",
    ),
    switched_off(
        RULES,
        "never guesses",
        "guesses which time local bytes cover that a size bounds",
        "    if (retention_bytes if local_bytes == _AS_THE_TOPIC else local_bytes) >= 0:",
        _DISK + "test_what_nobody_can_tell_says_why",
    ),
]
