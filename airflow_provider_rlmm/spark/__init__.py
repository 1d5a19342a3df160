# SPDX-License-Identifier: Apache-2.0
"""DataFrame functions for Spark jobs; no session is created here."""
