# SPDX-License-Identifier: Apache-2.0
"""What runs in the executors' Python, which has pyspark, pyarrow and numpy; nothing here needs pyspark."""
