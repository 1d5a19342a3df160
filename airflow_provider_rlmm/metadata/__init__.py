# SPDX-License-Identifier: Apache-2.0
"""The records of ``__remote_log_metadata``, their wire format and their state machine; pure, no I/O."""
