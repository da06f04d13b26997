# Every target does its own set-up; nothing but git, make and python3 (3.11+, with venv) is assumed.
PY := .venv/bin/python
# One more than there are processors, as tests also wait; each may start a cluster or a Spark of its own.
WORKERS ?= $(shell python3 -c "import os; print(min(8, 1 + (os.cpu_count() or 1)))")
# Hundreds of processes start here: what Python compiled for one serves the others, also where the machine says that
# nothing be kept; compiling takes a broker as long as all else of its start, and the collection of tests twice as long.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(PY) -m pytest -q -n $(WORKERS) --dist loadgroup

.PHONY: help install demo test coverage peer compatibility fuzz lint types format lock bench dist docs site clean
help:            ## show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

install: .runtime ## make .venv with the command .venv/bin/barycenter, and Java if there is none

demo: .runtime   ## start a cluster, drive it with real clients, kill a broker, write a report
	$(PY) -m pulsar_barycenter demo $(ARGS)

test: .dev       ## all tests in their short form
	$(PYTEST) $(ARGS)

coverage: .dev   ## what all tests run of the code, and what none does; build/coverage-pages shows the lines
	$(PYTEST) --cov --cov-all-kinds --cov-report=term --cov-report=html $(ARGS)

peer: .dev       ## against Apache Pulsar itself, HDFS, S3, an OpenID provider; needs Maven, a JDK, node, Go
	$(PY) -m pytest -q tests/peer --peer-required --peer-cases 2000 --peer-version both $(ARGS)
	$(PY) -m pytest -q tests --ignore tests/peer -m "full_form or drawn or drawn_tests" --full-form $(ARGS)
	$(PY) -m pytest -q tests/property --full-form $(ARGS)

compatibility: .dev ## run every verb of pulsar-admin at both clusters and write docs/compatibility.md; as peer
	$(PY) -m pytest -q -n0 tests/peer/test_admin_verbs.py --peer-required --peer-write --timeout 3600 $(ARGS)

fuzz: .dev       ## send a broker what nobody would send, for hours: frames and HTTP requests
	$(PY) -m pytest -q tests/fuzz --fuzz-examples $(or $(EXAMPLES),100000) --fuzz-requests $(or $(REQUESTS),500) \
		--timeout 14400 $(ARGS)

lint: .dev       ## ruff: rules and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: .dev      ## mypy, strict
	$(PY) -m mypy

format: .dev     ## rewrite the sources in the house format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

lock: .dev       ## resolve the dependencies anew
	$(PY) scripts/lock.py

dist: .dev       ## build the wheel and the source distribution of the last commit, into dist/
	$(PY) scripts/build_distributions.py

docs: .dev       ## regenerate the reference pages made from the code
	$(PY) scripts/generate_configuration_doc.py
	$(PY) scripts/generate_rest_doc.py
	$(PY) scripts/generate_authorization_doc.py
	$(PY) scripts/generate_tables_doc.py
	$(PY) scripts/generate_metrics_doc.py
	$(PY) scripts/generate_ownership_doc.py
	$(PY) scripts/generate_strategy_docs.py
	$(PY) scripts/generate_decisions_doc.py
	$(PY) scripts/generate_api_doc.py

site: .dev       ## build the reference of the public interface: build/site/index.html
	$(PY) -m sphinx -q -W --keep-going -b html docs/site build/site

bench: .dev      ## list what can be measured; ARGS="NAME" measures it, as in benchmarks/RESULTS.md
	$(PY) -m benchmarks $(ARGS)

clean:           ## remove what the targets made
	rm -rf .venv build demo-out

.PHONY: .runtime .dev
.runtime:
	@python3 scripts/bootstrap.py
.dev:
	@python3 scripts/bootstrap.py --dev
