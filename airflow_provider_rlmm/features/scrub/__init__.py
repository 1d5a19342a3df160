# SPDX-License-Identifier: Apache-2.0
"""What lies in storage beside what the log says, and what of it may go."""
