# SPDX-License-Identifier: Apache-2.0
"""
What the pages show, read from the work folder: bounded, page by page, without Airflow.

Whoever can write into the work folder chooses what lies there, so nothing is believed before its form was checked, and
nothing that is read here ever decides about a deletion.
"""
