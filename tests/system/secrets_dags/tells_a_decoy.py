# SPDX-License-Identifier: Apache-2.0
"""A task that tells a secret wherever one can be told: whoever hunts for secrets must find this one everywhere."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from airflow.providers.common.compat.openlineage.facet import Dataset
from airflow.providers.common.compat.sdk import AirflowFailException, Stats
from airflow.providers.openlineage.extractors import OperatorLineage
from airflow.sdk import DAG, BaseOperator, Context

from airflow_provider_rlmm.core.base.file_systems import replace_file
from airflow_provider_rlmm.notifications.configured import of_tasks, on_failure
from airflow_provider_rlmm.settings import work_uri


class TellsADecoy(BaseOperator):
    template_fields = ("decoy",)

    def __init__(self, *, decoy: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decoy = decoy

    def execute(self, context: Context) -> None:
        self.log.info("the decoy is %s", self.decoy)
        context["ti"].xcom_push(key="decoy", value={"told": self.decoy})
        Stats.gauge(f"decoy.{self.decoy}", 1)
        replace_file(f"{work_uri()}/decoy.json", [self.decoy.encode()])
        # It lives for as long as somebody needs who looks at command lines now and then.
        subprocess.run([sys.executable, "-c", "import time; time.sleep(2)", self.decoy], check=True)
        raise AirflowFailException(self.decoy)

    def get_openlineage_facets_on_start(self) -> Any:
        return OperatorLineage(inputs=[Dataset("decoy", self.decoy)])

    def get_openlineage_facets_on_failure(self, task_instance: object) -> Any:
        return self.get_openlineage_facets_on_start()


with DAG("tells_a_decoy", schedule=None, on_failure_callback=on_failure(), default_args=of_tasks()):
    TellsADecoy(task_id="tell", decoy="{{ var.value.rlmm_test_decoy }}")
