# SPDX-License-Identifier: Apache-2.0
# `make` or `make help` lists the targets.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -q
UV_COMPILE := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-header -q
AZURITE := azurite@3.37.0

SIDE_BY_SIDE ?= 5
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format quick unit unit-airflow unit-features unit-others coverage simulate simulate-protections mutations differential integration \
	full rare manager copying scenarios week soak cluster spark test-spark-scale export-scale system two-clusters matrix stores \
	browser pictures package docs bench bench-growth bench-tasks bench-dag bench-replay bench-scale bench-memory bench-deletion bench-start bench-scrub bench-survey bench-records bench-contents bench-roads bench-publish bench-read lock clean

help: ## List the targets
	@awk '/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		match($$0, /^[a-z-]+:.*## /) {sub(/:.*## /, ":"); at = index($$0, ":"); printf "  %-20s %s\n", substr($$0, 1, at - 1), substr($$0, at + 1)}' $(MAKEFILE_LIST)

# Tests, demo and benchmarks start hundreds of interpreters: each would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

##@ To begin

setup: .venv/.ready ## Make .venv with everything of requirements.lock

.venv/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(sed -n 's/^\(uv==[^ ;]*\).*/\1/p' requirements.lock)"
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

demo: setup ## Run the main job on embedded defaults: real Kafka, Spark, Airflow; a table of before and after
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m dev.demo

lock: setup ## Resolve the dependencies anew into requirements.lock and requirements-stores.lock
	$(UV_COMPILE) --extra airflow --extra spark --group dev --upgrade -o requirements.lock
	$(UV_COMPILE) --extra airflow --extra spark --group stores --upgrade -o requirements-stores.lock

clean: ## Remove what the targets made
	rm -rf .venv .venv-stores dev/lib dev/target build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

##@ While you work

quick: setup ## Half a minute: lint of what differs from main, unit tests that neither import Airflow nor are slow
	$(BIN)/python -m dev.quick

unit: setup ## Unit and property tests: no server (ARGS="tests/unit/cli -x": what pytest takes; EXAMPLES=25: a quarter of the examples)
	$(PYTEST) $(if $(filter tests/%,$(ARGS)),,-m "not rare" tests/unit tests/property) $(ARGS)

lint: setup ## Style, types, layers, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

format: setup ## Rewrite the sources in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

coverage: setup ## Which lines of the package unit and property tests reach, worst modules first
	$(BIN)/python -m coverage run -m pytest -q tests/unit tests/property
	$(BIN)/python -m coverage report --sort=cover

docs: setup ## Build the documentation site into build/docs: every warning, and every link within it that leads nowhere, is an error
	$(BIN)/sphinx-build -q -E -W --keep-going -n docs build/docs

##@ What CI runs

# Style first, and what waits for brokers, schedulers and sessions of Spark: it keeps half a core busy. What keeps a whole one busy fills up the rest.
LANES := lint integration system spark unit-airflow unit-features unit-others simulate differential package docs

# Fewer stories, examples and events than the targets have alone: all of them are a quarter of an hour of processor time.
test: export SEEDS ?= 200
test: export EXAMPLES ?= 10
test: export EVENTS ?= 50000
test: setup ## Run every check that CI runs, SIDE_BY_SIDE=n of them at a time
	$(BIN)/python -m dev.class_archive
	$(BIN)/python -m dev.lanes --side-by-side $(SIDE_BY_SIDE) $(LANES)

# One after the other they would be the lane that ends last.
unit-airflow: setup ## Unit tests of the faces in Airflow
	$(PYTEST) -m "not rare" tests/unit/airflow

unit-features: setup ## Unit tests of the features, and property tests
	$(PYTEST) -m "not rare" tests/unit/features tests/property

unit-others: setup ## Unit tests of all else: core, command, documentation
	$(PYTEST) -m "not rare" --ignore=tests/unit/airflow --ignore=tests/unit/features tests/unit

simulate: setup ## Deterministic simulation of cleaner, copier, scrub and work folder (SEEDS=n for more, FIRST=seed repeats a run)
	$(PYTEST) tests/simulation $(if $(SEEDS),--seeds=$(SEEDS)) $(if $(FIRST),--first-seed=$(FIRST))

differential: setup ## 200,000 random events, 10,000 expirations: the same as Kafka's own classes in a JVM (SEED=n repeats a run, EVENTS=n makes more)
	$(PYTEST) tests/differential $(if $(SEED),--differential-seed=$(SEED)) $(if $(EVENTS),--differential-events=$(EVENTS))

integration: setup ## Tests on a real Kafka broker
	$(PYTEST) -m "not cluster and not manager and not copying and not scenarios and not rare" tests/integration

spark: setup ## Tests on a real Spark
	$(PYTEST) -m "not rare" tests/spark

system: setup ## Tests on a real Airflow with its scheduler
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -m "not scenarios and not clusters and not rare" tests/system

package: setup ## Build the wheel and try it in a clean environment
	$(PYTEST) -m "not rare" tests/package

##@ Heavy suites, in minutes to an hour each

FULL := cluster manager copying scenarios week soak stores two-clusters browser matrix mutations simulate-protections \
	test-spark-scale export-scale rare

full: setup ## All of these suites, one after the other, whatever fails; what each took comes last (hours, 8 GB of memory)
	$(BIN)/python -m dev.lanes --side-by-side 1 $(FULL)

rare: setup ## What make test has no time for: each right alone, brokers that die, alarms, archives and markers under a scheduler, pages' commands, Spark on a cluster, all examples of all properties (minutes)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -m rare tests/unit tests/integration tests/system tests/spark tests/package; \
	rare=$$?; $(PYTEST) tests/property tests/differential && exit $$rare

cluster: setup ## Tests on a Kafka cluster of three brokers (minutes, 1 GB of memory)
	$(PYTEST) -m cluster tests/integration

manager: setup ## Consuming, snapshots and the doctor on real brokers that restart, die and are poisoned (minutes)
	$(PYTEST) -m manager tests/integration

copying: setup ## Log directories that we copy instead of their brokers: adopted, interrupted, killed, diverged (minutes, 1 GB of memory)
	$(PYTEST) -m copying tests/integration

scenarios: setup ## What real brokers leave behind, provoked and cleaned: faults, foreign actors, process kills (minutes)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -m scenarios tests/integration tests/system

week: setup ## A week of hourly runs in compressed time, topics coming and going: how the work folder grows, how fast its pages are (minutes)
	$(PYTEST) -s tests/week

soak: setup ## 20,000 segments, three cleaners at once, an S3 server and a broker that fail under them (SEGMENTS=n; minutes, needs Go)
	$(BIN)/python -m tests.soak $(if $(SEGMENTS),--segments=$(SEGMENTS))

two-clusters: setup ## Two clusters at once, schedules, plans that start cleaners and people who are asked, under a real scheduler (minutes)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) -m clusters tests/system

stores: .venv-stores/.ready dev/target/azurite/.ready ## Connections of Google and Azure with their providers, against a small server and Azurite, and the pages under FAB (Node; minutes to install)
	.venv-stores/bin/python -m pytest -q -m stores tests/stores

.venv-stores/.ready: requirements-stores.lock pyproject.toml | setup
	$(PYTHON) -m venv .venv-stores
	$(BIN)/uv pip sync --quiet --python .venv-stores/bin/python --require-hashes requirements-stores.lock
	$(BIN)/uv pip install --quiet --python .venv-stores/bin/python --no-deps --no-build-isolation --editable .
	touch $@

dev/target/azurite/.ready:
	npm install --silent --no-audit --no-fund --no-save --prefix dev/target/azurite $(AZURITE)
	touch $@

browser: setup ## The pages in a real browser, on a real broker and a real Airflow (needs Chromium; 5 minutes)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTEST) tests/browser

matrix: setup ## Other versions: the wheel on Airflow 3.1 to 3.3 and Python 3.11 to 3.13, Spark 3.5 to 4.2, Kafka 3.9 to 4.4 (CELLS=3.1/3.11,3.3/3.13 for some; 40 minutes)
	$(BIN)/python -m tests.matrix $(if $(CELLS),--cells=$(CELLS)); cells=$$?; $(PYTEST) -m matrix tests/matrix && exit $$cells

mutations: setup ## Break the code on purpose and see every break caught
	$(BIN)/python -m tests.mutations

simulate-protections: setup ## Switch each protection off alone; the simulation must miss it within 5,000 seeds, and records which
	$(BIN)/python -m tests.simulation.protections

test-spark-scale: setup ## The Spark job on 1.25 million records, skewed, and on a cluster that loses a worker (SCALE=0.01 tries it; 8 GB)
	$(PYTEST) -s tests/spark_scale $(if $(SCALE),--scale=$(SCALE))

export-scale: setup ## The Spark export of 2 GiB of segments on two cores, with workers that are killed (GIB=10 for more; minutes, as much disk twice)
	$(PYTEST) -s tests/export_scale $(if $(GIB),--gib=$(GIB))

##@ Benchmarks and pictures

bench: setup ## Every budget beside its peer, three runs at least; what is final goes into docs/benchmarks.md (hours on a quiet machine, 8 GB of memory, Go)
	$(BIN)/python -m benchmarks

bench-growth: setup ## What grows faster than its cause: events, metadata partitions, topics, segments (half an hour, 16 GB of memory; SCALE=0.001 tries it)
	$(BIN)/python -m benchmarks.growth $(if $(SCALE),--scale=$(SCALE))

bench-tasks: setup ## Marking and planning as tasks in processes of their own, from start to end, with their budgets (15 minutes, 8 GB of memory)
	$(BIN)/python -m benchmarks.main_job

bench-dag: setup ## The cleaner's DAG under LocalExecutor, from trigger to green, beside as many empty tasks (10 minutes)
	$(BIN)/python -m benchmarks.whole_dag

bench-replay: setup ## Decoding, replay, memory and resuming beside Kafka's own classes, with their budgets (20 minutes, 8 GB of memory)
	$(BIN)/python -m benchmarks.replay

bench-scale: setup ## The main job at scale and its parts beside their peers, with their budgets (half an hour, 8 GB of memory)
	$(BIN)/python -m benchmarks.scale; scale=$$?; $(BIN)/python -m benchmarks.replay && exit $$scale

bench-memory: setup ## What a task of the Spark job takes for a metadata partition of half a million living segments, with its budgets (2 minutes)
	$(BIN)/python -m benchmarks.executor_memory

bench-deletion: setup ## The cleaner beside the broker's own deletion, with its budgets, and on S3 beside a boto3 loop (half an hour)
	$(BIN)/python -m benchmarks.deletion; deletion=$$?; $(BIN)/python -m benchmarks.whole_deletion; whole=$$?; \
	$(BIN)/python -m benchmarks.deletion_s3 && exit $$((deletion | whole))

bench-start: setup ## What commands take that ask no cluster, with their budgets (a minute)
	$(BIN)/python -m benchmarks.start_up

bench-scrub: setup ## How often a scrub's deletion lists, and the memory of a scrub, in stores that are made up, with their budgets (25 minutes)
	$(BIN)/python -m benchmarks.scrub

bench-survey: setup ## What a survey costs beside the plan of the same topic, with its budgets (3 minutes)
	$(BIN)/python -m benchmarks.survey

bench-records: setup ## Record batches as Arrow columns beside Kafka's own classes, with their budgets (3 minutes)
	$(BIN)/python -m benchmarks.record_batches

bench-contents: setup ## rlmm verify of a segment beside sha256sum of it, with its budgets (2 minutes)
	$(BIN)/python -m benchmarks.contents

bench-roads: setup ## How long the commands of docs/getting-started.md take to a finding and to the first deletion, in a terminal and in Airflow (a quarter of an hour)
	$(BIN)/python -m benchmarks.roads

bench-publish: setup ## Measure publishing in a batch beside one by one, on a real broker
	$(BIN)/python -m benchmarks.publish

bench-read: setup ## Reading and copying the remote log beside the broker, with their budgets, and reading from S3 (half an hour, 14 GB of disk, needs Go)
	$(BIN)/python -m benchmarks.remote_log

pictures: setup ## Make the pictures of the documentation anew: the command and the UI on real brokers (needs Chromium; 7 minutes)
	$(BIN)/python -m dev.recording
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m dev.ui_pictures
