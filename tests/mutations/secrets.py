# SPDX-License-Identifier: Apache-2.0
"""Mutations of what keeps secrets, hostile names and hostile files out of logs, errors and pages."""

from __future__ import annotations

from tests.mutations.mutation import ABSENCE, Mutation, switched_off

QUOTING = "core/base/quoting.py"
RECORDS = "core/records/records.py"
ATTENTION = "core/runs/attention.py"
REDACTION = "core/base/redaction.py"
CLIENT_WATCH = "core/log/kafka/client_watch.py"
KAFKA_CLIENT = "core/log/kafka/client.py"
KAFKA_CONFIG = "core/log/kafka/config.py"
CONNECTION_CHECK = "core/runs/connection_check.py"
SETTINGS = "settings.py"
STORE_URIS = "core/base/store_uris.py"
ARGUMENTS = "operators/arguments.py"
DOCUMENTS = "overview/documents.py"
PAGES = "plugins/pages.py"
DIAGNOSIS = "features/doctor/diagnosis.py"
RENDERING = "plugins/rendering.py"
CLUSTERS = "plugins/clusters.py"
SERVING = "plugins/serving.py"
ACTIONS = "plugins/actions.py"
RIGHTS = "plugins/rights.py"
CSV_LINES = "overview/csv_lines.py"
BOUNDED_PARQUET = "core/base/bounded_parquet.py"
HEAVY_ANSWERS = "plugins/heavy_answers.py"
RUN_PAGES = "overview/runs.py"
WEB = "plugins/web.py"

_CLIENT_SECRETS = "core/log/kafka/test_client.py::TestSecrets::"
_TOLD_APART = "core/log/kafka/test_client_watch.py::test_what_is_wrong_with_a_certificate_is_told_apart"
_PAGES = "airflow/plugins/test_pages_safety.py::"
_RIGHTS = "airflow/plugins/test_page_rights.py::"
_BOUNDED = "core/base/test_bounded_parquet.py::"
_HEAVY = "airflow/plugins/test_heavy_answers.py::"
_NO_BUTTON = "airflow/plugins/test_cluster_pages.py::test_who_may_start_runs_has_buttons_and_a_viewer_none"

SECRETS = [
    # -- names from the log
    Mutation(
        "names",
        "a name from the log stands in texts as it is",
        RECORDS,
        ":{name_in_text(self.topic)}-",
        ":{self.topic}-",
        "core/base/test_quoting.py::test_any_other_name_is_quoted",
    ),
    Mutation(
        "names",
        "what needs a person names a topic as it is",
        ATTENTION,
        "name_in_text(self.topic)",
        "self.topic",
        "core/runs/test_attention.py::test_a_topic_is_quoted_where_kafka_would_not_allow_its_name",
    ),
    Mutation(
        "names",
        "the names of one topic id are listed as they are",
        ABSENCE,
        "{list_in_quotes(names)}",
        "{sorted(names)}",
        "core/world/test_absence.py::test_names_from_the_log_are_quoted",
    ),
    Mutation(
        "names",
        "marks of direction pass",
        QUOTING,
        "(c if c.isprintable() else _escaped(c) for c in text)",
        "(c for c in text)",
        "core/base/test_quoting.py::test_no_mark_and_no_control_character_gets_through",
    ),
    # -- secrets in texts of others
    Mutation(
        "secrets",
        "a store repeats the token of a session that is over",
        REDACTION,
        'return _REPEATED.sub(rf"<\\1>{HIDDEN}</\\1>", text)',
        "return text",
        "core/base/test_redaction.py::test_what_a_store_repeats_of_a_request_is_hidden_whoever_gave_it",
    ),
    Mutation(
        "secrets",
        "a store's error repeats credentials of the environment",
        REDACTION,
        "*(value for value in values if len(value) >= _SHORTEST_OF_A_STORE)",
        "*()",
        "core/base/test_redaction.py::test_what_a_store_is_opened_with_by_the_environment_is_hidden",
    ),
    Mutation(
        "secrets",
        "the error of a file in a store is told as it is",
        "core/base/object_stores.py",
        "without_stores_secrets(str(error)).splitlines()",
        "str(error).splitlines()",
        "core/base/test_file_systems.py::test_a_session_that_is_over_is_refused_without_its_token",
    ),
    Mutation(
        "secrets",
        "the login among the addresses of brokers is told OpenLineage",
        "observability/lineage.py",
        'first if "@" not in str(servers) and _ADDRESS.fullmatch(first) else None',
        "first or None",
        "airflow/observability/test_lineage.py::test_a_login_among_the_addresses_is_told_nobody",
    ),
    Mutation(
        "secrets",
        "the address that a notifier calls stands in the log",
        "notifications/remote_log.py",
        "printable(without_addresses(str(error)), MAX_ERROR)",
        "printable(str(error), MAX_ERROR)",
        "airflow/notifications/test_notifications.py::test_one_that_fails_is_told_without_the_address_that_it_called",
    ),
    Mutation(
        "secrets",
        "an error repeats what librdkafka repeats",
        CLIENT_WATCH,
        'without_secrets(f"{error.name()}: {error.str()}", self._secrets)',
        'f"{error.name()}: {error.str()}"',
        f"{_CLIENT_SECRETS}test_what_librdkafka_repeats_of_them_is_hidden",
    ),
    Mutation(
        "secrets",
        "librdkafka's log lines pass as they are",
        CLIENT_WATCH,
        "without_secrets(text, self._secrets)",
        "text",
        f"{_CLIENT_SECRETS}test_librdkafkas_own_lines_repeat_none",
    ),
    Mutation(
        "secrets",
        "a refused property is repeated with its value",
        KAFKA_CLIENT,
        "without_secrets(error.args[0].str().strip(), secrets_of(properties))",
        "error.args[0].str()",
        f"{_CLIENT_SECRETS}test_a_refused_property_repeats_none",
    ),
    Mutation(
        "secrets",
        "parts of a JAAS entry or an OAuth configuration are no secrets",
        REDACTION,
        "        yield from _secret_parts(value)\n",
        "        yield from ()\n",
        "core/base/test_redaction.py",
    ),
    Mutation(
        "secrets",
        "a login in a URL is no secret",
        REDACTION,
        "    yield from _secrets_in_url(value)\n",
        "",
        "core/base/test_redaction.py::test_a_login_and_a_query_in_a_url_are_hidden_and_the_host_is_not",
    ),
    Mutation(
        "secrets",
        "a login without a protocol is not used",
        KAFKA_CONFIG,
        "            _check_login({**self.properties, **own})\n",
        "            pass\n",
        "core/log/kafka/test_kafka_config.py::test_a_login_that_would_not_be_used_is_refused",
    ),
    Mutation(
        "secrets",
        "the connection test lets a panic through",
        CONNECTION_CHECK,
        "    except BaseException as e:\n",
        "    except Exception as e:\n",
        "airflow/hooks/test_hooks.py::test_whatever_happens_becomes_a_sentence",
    ),
    switched_off(
        STORE_URIS,
        "secrets",
        "a URI may hold a query",
        '    if "?" in uri or "#" in uri:',
        "airflow/test_settings.py::test_what_may_hold_a_secret_is_refused_and_not_repeated",
    ),
    switched_off(
        STORE_URIS,
        "secrets",
        "a URI may hold a login",
        '    if "@" in parts.netloc:',
        "airflow/test_settings.py::test_what_may_hold_a_secret_is_refused_and_not_repeated",
    ),
    # -- certificates
    Mutation(
        "certificates",
        "a refused certificate is a network that may recover",
        CLIENT_WATCH,
        " or is_tls_refusal(error.str())",
        "",
        "core/log/kafka/test_client_watch.py::test_a_refused_certificate_is_final_under_either_code",
    ),
    switched_off(CLIENT_WATCH, "certificates", "another host is no reason", "    if code in _WRONG_NAME:", _TOLD_APART),
    switched_off(
        CLIENT_WATCH, "certificates", "an expired certificate is no reason", "    if code == _EXPIRED:", _TOLD_APART
    ),
    switched_off(
        CLIENT_WATCH, "certificates", "a wrong authority is no reason", "    if code in _WRONG_AUTHORITY:", _TOLD_APART
    ),
    Mutation(
        "certificates",
        "a client is opened whose certificates are missing",
        KAFKA_CLIENT,
        "    check_files(properties)\n",
        "",
        "core/log/kafka/test_kafka_config.py::test_a_missing_file_is_named_before_a_client_is_opened",
    ),
    # -- plans from elsewhere
    switched_off(
        SETTINGS,
        "source plan",
        "a plan is taken from anywhere",
        "    if not any(_lies_below(uri, root) for root in (work_uri(), *allowed_plan_roots())):",
        "airflow/test_settings.py::test_an_administrator_may_allow_further_roots",
    ),
    Mutation(
        "source plan",
        "the operators do not ask where a plan lies",
        ARGUMENTS,
        "    return None if source_plan is None else plan_uri(source_plan)\n",
        "    return source_plan\n",
        "airflow/operators/test_operators.py::test_a_source_plan_is_named_or_lies_below_an_allowed_root",
    ),
    # -- pages
    switched_off(
        DOCUMENTS,
        "pages",
        "a link out of the work folder is followed",
        "    if not resolved.is_relative_to(root) or resolved == root:",
        f"{_PAGES}test_only_regular_files_below_the_work_folder_are_read",
    ),
    Mutation(
        "pages",
        "a link that is put in the way meanwhile is followed",
        DOCUMENTS,
        "os.O_DIRECTORY | os.O_NOFOLLOW |",
        "os.O_DIRECTORY |",
        f"{_PAGES}test_a_link_that_is_put_in_the_way_meanwhile_leads_nowhere",
    ),
    Mutation(
        "pages",
        "a pipe is waited for",
        DOCUMENTS,
        "os.O_NONBLOCK | ",
        "",
        f"{_PAGES}test_a_pipe_without_a_writer_keeps_nobody_waiting",
    ),
    switched_off(
        DOCUMENTS,
        "pages",
        "what is no regular file is read",
        "        if not stat.S_ISREG(status.st_mode):",
        f"{_PAGES}test_only_regular_files_below_the_work_folder_are_read",
    ),
    switched_off(
        DOCUMENTS,
        "pages",
        "a file of any size is shown",
        "        if len(data) > max_bytes:",
        f"{_PAGES}test_a_large_file_is_not_read",
    ),
    Mutation(
        "pages",
        "an object of any size is shown",
        DOCUMENTS,
        "*steps)), max_bytes).to_pybytes()",
        "*steps))).to_pybytes()",
        f"{_PAGES}test_a_large_object_is_not_read",
    ),
    Mutation(
        "pages",
        "a diagnosis of any form is shown",
        DIAGNOSIS,
        '    read = _READ(document, "diagnosis")\n',
        "    read = ReportedDiagnosis(**document)\n",
        f"{_PAGES}test_what_is_no_diagnosis",
    ),
    switched_off(
        DIAGNOSIS,
        "pages",
        "a number of any length is a partition in a diagnosis",
        "        if type(value) is not int or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):",
        f"{_PAGES}test_what_is_no_diagnosis",
    ),
    switched_off(
        DIAGNOSIS,
        "pages",
        "a finding that nothing explains is left out of the page without a word",
        "    if unexplained := sorted({finding.kind for finding in read.findings} - read.explanations.keys()):",
        f"{_PAGES}test_what_is_no_diagnosis",
    ),
    Mutation(
        "pages",
        "a document's texts are shown as they are",
        RENDERING,
        "        finalize=_visible,\n",
        "",
        f"{_PAGES}test_no_text_brings_a_line_break_or_a_mark_of_direction",
    ),
    Mutation(
        "pages",
        "another site may frame the pages",
        WEB,
        " frame-ancestors 'self'\",\n",
        '",\n',
        f"{_PAGES}test_every_answer_has_the_security_headers",
    ),
    Mutation(
        "pages",
        "errors lack the security headers",
        WEB,
        "{**(headers or {}), **_HEADERS}",
        "{**(headers or {})}",
        f"{_PAGES}test_an_error_of_ours_is_a_page_without_details",
    ),
    Mutation(
        "pages",
        "a page may hold scripts of its own",
        WEB,
        "script-src 'self';",
        "script-src 'self' 'unsafe-inline';",
        f"{_PAGES}test_every_answer_has_the_security_headers",
    ),
    Mutation(
        "pages",
        "who may read no DAG reads the pages",
        RIGHTS,
        "    if not rights.may_see_any():",
        "    if False:",
        f"{_RIGHTS}test_who_may_read_another_dag_alone_sees_none_of_the_pages",
    ),
    switched_off(
        SERVING,
        "pages",
        "documents of a DAG that may not be read are shown",
        "    if not rights.may_see_document(name):",
        "airflow/plugins/test_pages.py::test_a_document_is_for_those_who_may_read_its_dag",
    ),
    switched_off(
        CLUSTERS,
        "pages",
        "who may read the DAGs of one cluster sees all",
        "    if not _may_see(rights, cluster):",
        "airflow/plugins/test_cluster_pages.py::test_who_may_read_the_dags_of_one_cluster_sees_that_cluster_alone",
    ),
    Mutation(
        "pages",
        "a viewer has the buttons of a cluster",
        ACTIONS,
        "    if connection not in connections() or not rights.may_trigger(dag_id):",
        "    if connection not in connections():",
        _NO_BUTTON,
    ),
    Mutation(
        "pages",
        "a viewer has the answers to a request for approval",
        ACTIONS,
        " or not rights.may_answer(run.dag_id):",
        ":",
        _NO_BUTTON,
    ),
    switched_off(
        ACTIONS,
        "pages",
        "a viewer has the buttons of a plan",
        "    if not rights.may_trigger(cleaner):",
        "airflow/plugins/test_plan_rows.py::test_buttons_of_a_plan_and_none_for_a_viewer",
    ),
    Mutation(
        "pages",
        "a spreadsheet calculates a topic's name",
        CSV_LINES,
        'return f"\'{text}" if begins',
        "return text if begins",
        "airflow/plugins/test_plan_rows.py::test_all_rows_as_csv",
    ),
    Mutation(
        "pages",
        "a spreadsheet calculates a name behind a blank",
        CSV_LINES,
        ' or unicodedata.category(first)[0] in "ZC"',
        "",
        "overview/test_csv_lines.py::test_a_text_is_none_that_a_spreadsheet_calculates",
    ),
    Mutation(
        "pages",
        "a spreadsheet calculates what begins with a wide sign",
        CSV_LINES,
        'unicodedata.normalize("NFKC", first)[:1]',
        "first",
        "overview/test_csv_lines.py::test_a_text_is_none_that_a_spreadsheet_calculates",
    ),
    switched_off(
        BOUNDED_PARQUET,
        "pages",
        "a page reads any number of values at once",
        "            if size > MAX_READ_BYTES:",
        f"{_BOUNDED}test_more_than_is_read_at_once_is_refused_before_it_is_read",
    ),
    switched_off(
        BOUNDED_PARQUET,
        "pages",
        "a page of a file becomes any number of bytes",
        "                if page.uncompressed_bytes > MAX_PAGE_BYTES:",
        f"{_BOUNDED}test_more_than_is_read_at_once_is_refused_before_it_is_read",
    ),
    switched_off(
        BOUNDED_PARQUET,
        "pages",
        "rows hold any number of bytes of text",
        "    if size > max_bytes:",
        f"{_BOUNDED}test_long_texts_are_cut_and_their_sum_is_bounded",
    ),
    Mutation(
        "pages",
        "texts of any length are shown",
        BOUNDED_PARQUET,
        "    return pc.utf8_slice_codeunits(texts, 0, MAX_TEXT) if long else texts",
        "    return texts",
        f"{_BOUNDED}test_long_texts_are_cut_and_their_sum_is_bounded",
    ),
    Mutation(
        "pages",
        "a user gets any number of large answers",
        HEAVY_ANSWERS,
        "mine = self._of_users[user] >= MAX_OF_A_USER",
        "mine = False",
        f"{_HEAVY}test_a_user_gets_two_and_all_users_get_four",
    ),
    Mutation(
        "pages",
        "a process gives out any number of large answers",
        HEAVY_ANSWERS,
        "if mine or self._of_users.total() >= MAX_OF_THE_PROCESS:",
        "if mine:",
        f"{_HEAVY}test_a_user_gets_two_and_all_users_get_four",
    ),
    Mutation(
        "pages",
        "an answer that is not taken lasts",
        HEAVY_ANSWERS,
        "asyncio.timeout(max(0.0, min(STALLED_S, left)))",
        "asyncio.timeout(max(0.0, left))",
        f"{_HEAVY}test_an_answer_that_nobody_takes_ends",
    ),
    Mutation(
        "pages",
        "an answer that is taken slowly lasts",
        HEAVY_ANSWERS,
        "asyncio.timeout(max(0.0, min(STALLED_S, left)))",
        "asyncio.timeout(STALLED_S)",
        f"{_HEAVY}test_an_answer_that_nobody_takes_ends",
    ),
    Mutation(
        "pages",
        "rows of a plan are no large answer",
        "plugins/plan_routes.py",
        "    rights.begin_heavy_answer()\n    rows = ",
        "    rows = ",
        f"{_HEAVY}test_slow_readers_of_a_plan_cost_little_and_hold_nobody_up",
    ),
    switched_off(
        SERVING,
        "pages",
        "a large document is no large answer",
        "        if size > LARGE_BYTES:",
        f"{_HEAVY}test_a_large_document_is_a_large_answer",
    ),
    Mutation(
        "secrets",
        "the secrets of a long value take the square of its length",
        REDACTION,
        "(?<![\\w.-])(?P<name>[\\w.-]++)",
        "(?P<name>[\\w.-]+)",
        "core/base/test_redaction.py::test_the_secrets_of_a_long_value_are_found_in_time_that_grows_with_its_length",
    ),
    Mutation(
        "secrets",
        "a connection loads code into every process that opens it",
        KAFKA_CONFIG,
        '("plugin.library.paths", "ssl.engine.location", "ssl.providers")',
        "()",
        "core/log/kafka/test_kafka_config.py::test_what_correctness_needs_cannot_be_overridden",
    ),
    Mutation(
        "secrets",
        "a connection runs a command in every process that opens it",
        KAFKA_CONFIG,
        '    "sasl.kerberos.kinit.cmd": "it has every process that opens the connection run a command of its choice in a shell",\n',
        "",
        "core/log/kafka/test_kafka_config.py::test_a_command_of_kerberos_is_refused_and_not_repeated",
    ),
    switched_off(
        KAFKA_CONFIG,
        "secrets",
        "a connection puts a command into librdkafka's own",
        "    if name in _IN_A_COMMAND and not _PLAIN_WORD.fullmatch(str(value)):",
        "core/log/kafka/test_kafka_config.py::test_what_a_shell_would_run_is_refused_and_not_repeated",
    ),
    Mutation(
        "secrets",
        "a value that is refused is repeated",
        KAFKA_CONFIG,
        "must be 'earliest': the",
        "must be 'earliest', not {value!r}: the",
        "core/log/kafka/test_kafka_config.py::test_a_value_that_is_refused_is_not_repeated",
    ),
    Mutation(
        "pages",
        "what is not the progress of the run is shown as it",
        RUN_PAGES,
        "if (task.artifact, task.metadata_partition) != (artifact, number):",
        "if False:",
        "airflow/plugins/test_cluster_pages.py::test_progress_of_another_run_is_not_believed",
    ),
    Mutation(
        "pages",
        "an odd DAG id opens a run of another DAG",
        RIGHTS,
        "self.may_read(dag_id) and self.may_see_document(artifact)",
        "self.may_read(dag_id)",
        "airflow/plugins/test_cluster_pages.py::test_an_odd_id_of_a_dag_opens_no_run_of_another",
    ),
    Mutation(
        "pages",
        "what belongs to no DAG is for those who may read a single one",
        RIGHTS,
        " or {NO_DAG}",
        "",
        f"{_RIGHTS}test_who_may_read_another_dag_alone_sees_none_of_the_pages",
    ),
    Mutation(
        "pages",
        "an id that no DAG can have asks the auth manager another question",
        RIGHTS,
        "dag_id=dag_id if _DAG_ID.fullmatch(dag_id) else NO_DAG",
        "dag_id=dag_id",
        f"{_RIGHTS}test_no_odd_id_asks_another_question",
    ),
    Mutation(
        "pages",
        "who may read one of the DAGs that may have written a folder sees it",
        RIGHTS,
        "return all(map(self.may_read, self._dags_of(artifact)))",
        "return any(map(self.may_read, self._dags_of(artifact)))",
        f"{_RIGHTS}test_where_ids_hold_dots_all_dags_must_be_readable_that_may_have_written_the_folder",
    ),
    Mutation(
        "pages",
        "the DAG that a run's own summary names is not asked for",
        "plugins/run_routes.py",
        "    if run.summary is not None and not rights.may_read(run.summary.dag_id):",
        "    if False:",
        f"{_RIGHTS}test_the_dag_that_a_summary_names_only_narrows",
    ),
    Mutation(
        "secrets",
        "writes the login into a folder that a cluster shares",
        "operators/spark_on_cluster.py",
        "        if secrets_of(hook.get_client_config().properties):",
        "        if False:",
        "airflow/operators/test_spark_on_cluster.py::test_secrets_are_never_written_for_the_driver",
    ),
]
