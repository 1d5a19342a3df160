# SPDX-License-Identifier: Apache-2.0
"""Mutations of what keeps plan and generations whole in object stores, and what opens these out of sight."""

from __future__ import annotations

from tests.mutations.mutation import RETENTION_OPERATORS, Mutation, switched_off

OBJECTS = "core/base/object_stores.py"
HANDED = "core/storage/handed_store.py"
FOLDER = "features/retention/spark/plan_folder.py"
STORES = "features/retention/spark/stores.py"
ON_CLUSTER = "operators/spark_on_cluster.py"
OF_THE_TASK = "operators/spark_store.py"

_FILES = "core/base/test_file_systems.py::"
_STORES = "features/retention/test_object_stores.py::"
_ON_CLUSTER = "airflow/operators/test_spark_on_cluster.py::"

SPARK_STORES = [
    Mutation(
        "I11",
        "writes over an object that another program has created",
        OBJECTS,
        '            store.put(name, data, mode="create", use_multipart=False)\n        except AlreadyExistsError:\n            _proven',
        "            store.put(name, data, use_multipart=False)\n        except AlreadyExistsError:\n            _proven",
        f"{_FILES}test_a_file_is_created_once",
    ),
    Mutation(
        "I11",
        "believes a gateway that takes no notice of conditions",
        OBJECTS,
        "            _require_refusal(uri, store, name, data)\n",
        "",
        f"{_FILES}test_a_gateway_that_writes_over_what_is_there_is_refused",
    ),
    Mutation(
        "I11",
        "leaves a summary where two may have written one",
        OBJECTS,
        "        store.delete(name)\n    raise",
        "        pass\n    raise",
        f"{_FILES}test_a_gateway_that_writes_over_what_is_there_is_refused",
    ),
    Mutation(
        "I11",
        "ends a stream that was interrupted as if it were whole",
        "core/base/file_systems.py",
        "        except BaseException:\n            path.unlink(missing_ok=True)\n            raise",
        "        except BaseException:\n            raise",
        f"{_FILES}test_a_file_that_is_written_is_there_once_all_of_it_is",
    ),
    Mutation(
        "Spark",
        "finds out after the topic was read that its summary cannot be created",
        FOLDER,
        '            self.create(f"{rows}/begun", b"")\n',
        "            pass\n",
        f"{_STORES}test_a_gateway_that_writes_over_what_is_there_gets_neither_plan_nor_generation",
    ),
    switched_off(
        STORES,
        "another store",
        "opens a store of another kind by the options of the work folder's",
        "        if self.handed is None or read_store_uri(uri).kind != self.kind:",
        f"{_STORES}test_options_open_stores_of_their_kind_on_another_machine",
    ),
    switched_off(
        STORES,
        "Spark",
        "lets a Python without obstore read the topic first",
        "        if uri is not None and local_path(uri) is None:",
        f"{_STORES}test_a_python_without_obstore_is_refused_before_it_works",
    ),
    Mutation(
        "secrets",
        "prints what opens a store",
        HANDED,
        "    options: Mapping[str, str] = field(repr=False)",
        "    options: Mapping[str, str]",
        f"{_STORES}test_no_secret_is_in_what_is_printed_or_told",
    ),
    Mutation(
        "secrets",
        "repeats what a file of store options holds",
        HANDED,
        'raise ConfigurationError(f"{what} must be {_FORM}")\n    return {',
        'raise ConfigurationError(f"{what} must be {_FORM}: {given}")\n    return {',
        f"{_STORES}test_a_document_that_is_none_is_refused_without_repeating_it",
    ),
    Mutation(
        "secrets",
        "puts what opens the work folder on the command line of spark-submit",
        OF_THE_TASK,
        '{"--store-options": str(pipe)}',
        '{"--store-options": work_store_to_hand_over(uri, conn_id).to_json()}',
        "airflow/operators/test_spark_store.py::test_what_opens_the_work_folder_goes_to_the_job_through_a_pipe",
    ),
    Mutation(
        "secrets",
        "writes what opens the work folder into it for a driver on a cluster",
        ON_CLUSTER,
        '        return {} if named_file is None else {"--store-options"',
        "        from airflow_provider_rlmm.hooks.work_store import work_store_to_hand_over\n"
        '        self.write("store.json", work_store_to_hand_over(self.uri, "work").to_json())\n'
        '        return {} if named_file is None else {"--store-options"',
        f"{_ON_CLUSTER}test_a_driver_works_in_a_bucket_with_what_lies_on_its_machine",
    ),
    Mutation(
        "Spark",
        "lets code of another version work on a cluster",
        RETENTION_OPERATORS,
        '            "--package-version": __version__,\n',
        "",
        f"{_ON_CLUSTER}test_a_driver_works_in_a_bucket_with_what_lies_on_its_machine",
    ),
]
