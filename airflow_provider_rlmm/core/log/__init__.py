# SPDX-License-Identifier: Apache-2.0
"""The metadata topic as a log: what it answers, what follows it, the guard before every write, snapshots."""
