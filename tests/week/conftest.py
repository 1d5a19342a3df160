# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tests.airflow_home  # noqa: F401  # its import is what it is for
from tests.kill_switch import the_api_server_knows_no_switch  # noqa: F401  # a fixture
from tests.roots import the_work_folder_is_older_than_all_copies  # noqa: F401  # a fixture
