# SPDX-License-Identifier: Apache-2.0
"""Mutations of what keeps a connection from leading to another store, and its secrets out of errors."""

from __future__ import annotations

from tests.mutations.mutation import Mutation, switched_off

ACCESS = "hooks/stores/access.py"
AMAZON = "hooks/stores/amazon.py"
AZURE = "hooks/stores/azure.py"
CONNECTION_SECRETS = "hooks/stores/secrets.py"
CREDENTIALS = "core/storage/credentials.py"
REMOTE_LOG_ACCESS = "core/runs/access.py"
OPENING = "core/storage/opening.py"
PLUGIN = "core/world/storage_plugin.py"
WORK_STORE = "hooks/work_store.py"

_AMAZON = "airflow/hooks/test_amazon_connections.py::"
_CREDENTIALS = "core/storage/test_credentials.py::"

STORE_ACCESS = [
    switched_off(
        OPENING,
        "another store",
        "an option leads to another storage account than the URI names",
        "    if any(value != where.account for value in named.values()):",
        "core/storage/test_opening.py::test_an_option_leads_to_no_other_account_than_the_uri_names",
    ),
    switched_off(
        OPENING,
        "another store",
        "opens one of two endpoints that disagree",
        '    if len({value.rstrip("/") for value in found.values()}) > 1:',
        "core/storage/test_opening.py::test_an_s3_store_has_one_endpoint",
    ),
    switched_off(
        AZURE,
        "another store",
        "a connection of another storage account than the URI names is used",
        "    if where.account and where.account != account:",
        "airflow/hooks/test_store_connections.py::test_another_account_than_the_uris_is_refused",
    ),
    switched_off(
        "hooks/stores/access.py",
        "another store",
        "a connection of another kind of store is used",
        "        if where.kind != official.kind:",
        f"{_AMAZON}test_a_store_of_another_kind_is_refused",
    ),
    switched_off(
        AMAZON,
        "another store",
        "an endpoint under obstore's name is passed over",
        "    if names:",
        f"{_AMAZON}test_options_of_obstore_are_not_passed_over",
    ),
    switched_off(
        REMOTE_LOG_ACCESS,
        "another store",
        "the layout of another plugin is taken",
        "        if answer.fits is False:",
        "airflow/operators/test_check_operator.py::test_the_check_refuses_the_layout_of_another_plugin",
    ),
    Mutation(
        "another store",
        "brokers of two plugins count as one",
        PLUGIN,
        "    if layouts == {layout}:",
        "    if layout in layouts:",
        "core/world/test_storage_plugin.py::test_layouts_and_plugins",
    ),
    Mutation(
        "another store",
        "a changed connection of the work folder is not read anew",
        WORK_STORE,
        "connection.conn_id, connection.get_uri())",
        'connection.conn_id, "")',
        "airflow/hooks/test_work_store.py",
    ),
    Mutation(
        "secrets",
        "why there are no credentials is said with them",
        CREDENTIALS,
        "safe_text(e, self.secrets)",
        "e",
        f"{_CREDENTIALS}test_a_refusal_carries_neither_secrets_nor_a_cause",
    ),
    Mutation(
        "secrets",
        "credentials that a role gives are no secrets",
        CREDENTIALS,
        "            self.secrets.update(v for",
        "            set().update(v for",
        f"{_AMAZON}test_what_a_role_gives_is_a_secret_too",
    ),
    Mutation(
        "secrets",
        "what a provider's hook refuses is said with its secrets",
        CONNECTION_SECRETS,
        "safe_text(e, secrets)",
        "e",
        f"{_AMAZON}test_what_the_hook_refuses_is_said_without_secrets",
    ),
    Mutation(
        "secrets",
        "parts of a connection string are no secrets",
        CONNECTION_SECRETS,
        "        yield from _parts(name, value)\n",
        "",
        "airflow/hooks/test_store_connections.py::test_every_part_of_a_secret_is_known",
    ),
]
