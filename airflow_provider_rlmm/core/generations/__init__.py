# SPDX-License-Identifier: Apache-2.0
"""What a run of the Spark job knew of the metadata topic, written down for the next run, and for mark, plan and survey."""
