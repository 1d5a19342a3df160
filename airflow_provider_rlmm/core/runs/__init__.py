# SPDX-License-Identifier: Apache-2.0
"""What the steps of a run share: settings, access, the session, and what needs a person."""
