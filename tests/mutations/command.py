# SPDX-License-Identifier: Apache-2.0
"""The command ``rlmm``: who may write, where, and what an interrupt is."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

RUNS = "cli/runs.py"
CONFIGURATION = "cli/configuration.py"
MAIN = "cli/main.py"
OUTPUT = "cli/output.py"
LISTENING = "core/log/kafka/listening.py"
CHILD = "cli/cleaning_child.py"
PROCESSES = "cli/cleaning_processes.py"
JAVA_PROPERTIES = "core/log/kafka/java_properties.py"

COMMAND = [
    Mutation(
        "the command",
        "lists another cluster than the expected one for Spark",
        "core/runs/observing.py",
        "    access.check_cluster()\n",
        "",
        "cli/test_spark.py::test_another_cluster_is_not_listed",
    ),
    Mutation(
        "the command",
        "tells the Spark job nothing of explained gaps",
        "core/runs/observing.py",
        "explained_gaps=explained_gaps(work_uri, state.cluster_id, topic_id)",
        "explained_gaps=()",
        "cli/test_spark.py::test_the_job_reads_what_is_printed",
    ),
    switched_off(
        RUNS,
        "the command",
        "the cluster id of a configuration file lets a run delete",
        '    if execute and not invocation.options.get("expected_cluster_id"):',
        "cli/test_command.py::test_whoever_deletes_names_the_cluster",
    ),
    Mutation(
        "the command",
        "a dry run may write",
        RUNS,
        "    access = invocation.access(allow_writes=execute, allow_copy=copy)",
        "    access = invocation.access(allow_writes=True, allow_copy=copy)",
        "cli/test_command.py::test_a_dry_run_may_write_nothing",
    ),
    Mutation(
        "the command",
        "a configuration file allows writes for good",
        CONFIGURATION,
        '_NOT_WRITTEN_DOWN: Final = frozenset({"allow_writes", "allow_copy"})',
        "_NOT_WRITTEN_DOWN: Final[frozenset[str]] = frozenset()",
        "cli/test_configuration.py::test_a_wrong_file_is_named_and_its_secrets_are_not_repeated",
    ),
    Mutation(
        "the command",
        "a Ctrl-C of which a client made another error is one of those",
        MAIN,
        "            if not was_interrupted():\n                raise\n",
        "            raise\n",
        "cli/test_command.py::test_an_interrupt_that_a_client_made_another_error_of_is_one",
    ),
    Mutation(
        "I9",
        "a process of a cleanup takes any cluster that it reaches for the run's",
        CHILD,
        '{**self.options, "expected_cluster_id": self.summary.cluster_id}',
        "{**self.options}",
        "cli/test_cleaning_processes.py::test_a_process_expects_the_cluster_of_the_plan",
    ),
    Mutation(
        "the command",
        "a process that has lost its parent goes on",
        CHILD,
        "        if was_interrupted() or parent is None or not parent.is_alive():",
        "        if was_interrupted():",
        "cli/test_cleaning_processes.py::test_a_process_that_loses_its_parent_begins_no_further_batch",
    ),
    Mutation(
        "the command",
        "a process that has lost its parent rests to the end",
        CHILD,
        "        wait([parent.sentinel], seconds)",
        "        wait([], seconds)",
        "cli/test_cleaning_processes.py::test_a_process_rests_no_longer_than_its_parent_lives",
    ),
    Mutation(
        "the command",
        "each process of a cleanup deletes as fast as the run may",
        PROCESSES,
        "    each, left = divmod(limits.objects_per_second, processes)",
        "    each, left = limits.objects_per_second, 0",
        "cli/test_cleaning_processes.py::test_the_processes_share_the_rate_of_the_run",
    ),
    Mutation(
        "the command",
        "a process of a cleanup that was killed is not missed",
        PROCESSES,
        '            self._fail(child.at, f"{child.how_it_ended()}; {_NEXT_RUN}")\n',
        "",
        "cli/test_cleaning_processes.py::test_who_ends_badly_is_named_with_what_to_do_and_the_others_go_on",
    ),
    Mutation(
        "the command",
        "processes of a cleanup outlive a Ctrl-C",
        PROCESSES,
        "            child.process.terminate()\n",
        "            pass\n",
        "cli/test_cleaning_processes.py::test_an_interrupt_ends_the_processes",
    ),
    Mutation(
        "the command",
        "what others have named paints the terminal",
        "cli/tables.py",
        '        return printable(in_terminal(text) if " " in text else text, MAX_CELL)',
        '        return in_terminal(text) if " " in text else text',
        "cli/test_command.py::test_what_others_have_named_cannot_paint_the_terminal",
    ),
    Mutation(
        "the command",
        "waits for brokers where none listens",
        "cli/access.py",
        "            watched=True,\n",
        "",
        "cli/test_command.py::test_nobody_listens_and_the_command_ends_at_once",
    ),
    Mutation(
        "the command",
        "gives a silent broker up because another one refuses",
        LISTENING,
        "        if all(watch.troubled for watch in waiting.values()) and",
        "        if any(watch.troubled for watch in waiting.values()) and",
        "core/log/kafka/test_listening.py::TestWaiting::test_a_silent_address_beside_one_that_refuses_is_not_even_looked_at",
    ),
    Mutation(
        "the command",
        "takes a host for one without a broker because one of its addresses refuses",
        LISTENING,
        "        others = [e for e in errors.exceptions if not isinstance(e, ConnectionRefusedError)]",
        "        others = [e for e in errors.exceptions if not isinstance(e, OSError)]",
        "core/log/kafka/test_listening.py::TestOneLook::test_a_host_of_two_addresses_is_nobodys_only_if_both_refuse",
    ),
    Mutation(
        "secrets",
        "what is said of silent brokers repeats a secret",
        "core/log/kafka/client_watch.py",
        "        return None if self._last is None else self.text_of(self._last)",
        "        return None if self._last is None else self._last.str()",
        "core/log/kafka/test_listening.py::TestWaiting::test_it_is_said_once_and_without_a_secret",
    ),
    Mutation(
        "secrets",
        "the text of a broken properties file is repeated",
        JAVA_PROPERTIES,
        '        raise ConfigurationError(f"{in_quotes(path)} is no properties file in UTF-8") from None',
        '        raise ConfigurationError(f"{in_quotes(path)} is no properties file in UTF-8: {data!r}") from None',
        "core/log/kafka/test_java_properties.py::test_a_file_that_cannot_be_read_is_named_and_not_repeated",
    ),
]
