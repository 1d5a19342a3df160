# SPDX-License-Identifier: Apache-2.0
"""Marking, planning, cleaning and auditing of remote log segments."""
