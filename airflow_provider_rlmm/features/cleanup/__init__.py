# SPDX-License-Identifier: Apache-2.0
"""The RemoteLogCleaner: topics that are gone are marked, planned and cleaned; the report of a run."""
