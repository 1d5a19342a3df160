# SPDX-License-Identifier: Apache-2.0
"""Log directories as brokers leave them: what lies there, whose it is, and whether it may be copied."""
