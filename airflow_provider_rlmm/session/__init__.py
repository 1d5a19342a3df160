# SPDX-License-Identifier: Apache-2.0
"""
A run and its steps, for whoever starts them: Airflow's operators, or the command line.

``settings`` say which cluster and storage, ``access`` and ``storage_access`` open them, ``cleaner_session`` holds what the
steps of a run share, and ``checking``, ``cleaning`` and ``scrubbing`` are these steps.
"""
