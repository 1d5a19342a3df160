# SPDX-License-Identifier: Apache-2.0
"""
Messages about runs, for callbacks of DAGs and tasks.

Importing a module of this package imports no Spark, Kafka, Arrow or object-store library: DAG files do it.
"""
