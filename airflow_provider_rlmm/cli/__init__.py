# SPDX-License-Identifier: Apache-2.0
"""
The command ``rlmm``: what the DAGs do, for people without Airflow and for the terminal of those who have it.

It uses the same sessions, steps and guards as the operators, and has no rule of its own.
"""
