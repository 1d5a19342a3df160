# SPDX-License-Identifier: Apache-2.0
"""The metadata event log: what it answers, the guard before its writes, the replayed state, snapshots, a fake."""
