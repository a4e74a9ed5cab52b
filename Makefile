# The front door. The build itself is CMake + Ninja (CMakePresets.json); see `make help`.
PREFIX ?= /usr/local
DESTDIR ?=
PYTHON ?= python3
CLUSTER_KILLS ?= 5
CITUS_PREFIX ?=

.PHONY: help run test check check-fast test-long test-llm test-cross bench static amalgamation
.PHONY: bench-go bench-lango bench-recall install clean format deps release bench-python
.PHONY: test-adk-upstream test-mcp test-node node-package bench-node screenshots deb wheels
.PHONY: test-cluster test-cluster-nightly test-citus

help:
	@echo "make run         build quipu, run its demo in a fresh folder, serve it for a moment"
	@echo "make release     build all of the release: quipu, entgen, libraries, examples, benches"
	@echo "make test        everything that must be green: suites, sanitizers, compilers, check-fast"
	@echo "make check       the slow checks: clang-tidy, cppcheck, gcc -fanalyzer, documentation, ABI"
	@echo "make check-fast  format, layers, symbols, style, measures, headers, generated, requirements"
	@echo "make test-long   the full forms: kill cycles, sweeps, fuzz, every earlier layout"
	@echo "make test-llm    the providers against a small real model (downloads 127 MB once)"
	@echo "make test-mcp    the conformance suite of MCP (installs it and Node 22 once, by npm)"
	@echo "make test-node   the Node package, also with npm's frameworks; node-package: its tarball"
	@echo "make test-adk-upstream ADK_SOURCE=...  ADK's own suite from a checkout, over our service"
	@echo "make bench-python  the Python package against the default stores of frameworks"
	@echo "make test-cross  other processors under qemu, macOS and musl by zig, a chroot, one file"
	@echo "make test-cluster  3 PostgreSQL under Patroni: the leader killed, cut off, frozen (root)"
	@echo "make test-citus CITUS_PREFIX=...  stores distributed over a coordinator and three workers"
	@echo "make test-cluster-nightly  the same with CLUSTER_KILLS=20"
	@echo "make static      one self-contained program: build/static/bin/quipu"
	@echo "make amalgamation  build/amalgamation/quipu.c and quipu.h, to copy into a project"
	@echo "make bench       measure against the bars; writes build/bench.json"
	@echo "make bench-recall DATA=file  how often recall finds answers (docs/recall.md)"
	@echo "make bench-go    the Go bindings beside adk-go's own service (downloads modules once)"
	@echo "make bench-node  the Node package beside better-sqlite3 and Mastra's own store (npm)"
	@echo "make bench-lango  Lango's store before and after ent and the pure-Go driver, and quipu"
	@echo "make screenshots  every view of the page, in build/screenshots (docs/page.md)"
	@echo "make install     PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)"
	@echo "make deb         build/deb: libquipu, libquipu-dev, quipu and quipu-server for Debian"
	@echo "make wheels      build/wheels/dist: the Python package for manylinux, tried in chroots"
	@echo "make format      clang-format-19 over our own files"
	@echo "make deps        install every Debian package that is missing"
	@echo "make clean       remove build/"

# $(call build_release,OPTIONS): the release build; without options all of it.
define build_release
	@tools/deps.sh run
	@mkdir -p build
	@cmake --preset release >build/release.log 2>&1 || { cat build/release.log; exit 1; }
	@cmake --build --preset release $(1)
endef

# Only what it runs: the program with its libraries.
run:
	$(call build_release,--target quipu_program)
	@tools/run.sh build/quipu demo
	@tools/run_server.sh build/quipu
	@echo "The same and more in a browser: build/quipu demo --serve"

release:
	$(call build_release)

test:
	@tools/deps.sh test
	@$(PYTHON) tools/test.py test

check-fast:
	@tools/deps.sh test
	@$(PYTHON) tools/test.py check-fast

check:
	@tools/deps.sh check
	@$(PYTHON) tools/test.py check

test-long:
	@tools/deps.sh test
	@QUIPU_LONG=1 $(PYTHON) tools/test.py test-long

test-adk-upstream:
	@tools/deps.sh test
	@$(PYTHON) tests/python/run.py --upstream "$(ADK_SOURCE)"

bench-python:
	@tools/deps.sh test
	@status=0; for bench in bench frameworks; do \
		$(PYTHON) tests/python/run.py --exec bench/python/$$bench.py || status=1; \
	done; exit $$status

test-llm:
	@tools/deps.sh test
	@$(PYTHON) tools/test_llm.py

test-mcp:
	@tools/deps.sh test
	@$(PYTHON) tools/test_mcp.py

test-cross:
	@tools/deps.sh cross
	@$(PYTHON) tools/test.py test-cross

test-cluster:
	@tools/deps.sh cluster
	@$(PYTHON) tests/cluster/run.py --kills "$(CLUSTER_KILLS)"

# CITUS_PREFIX: an installation of PostgreSQL with Citus; without it the test is absent.
test-citus:
	@tools/deps.sh test
	@cmake --preset debug >/dev/null
	@cmake --build --preset debug --target contract_tests t_postgres_row_security \
		quipu_cluster_writer quipu_program
	@CITUS_PREFIX="$(CITUS_PREFIX)" $(PYTHON) tests/citus/run.py; \
	status=$$?; [ $$status = 77 ] && echo "test-citus: absent: 1" || exit $$status

test-cluster-nightly:
	@$(MAKE) --no-print-directory test-cluster CLUSTER_KILLS=20

static:
	@tools/deps.sh run
	@mkdir -p build
	@cmake --preset static >build/static.log 2>&1 || { cat build/static.log; exit 1; }
	@cmake --build --preset static --target quipu_program
	@ls -l build/static/bin/quipu

amalgamation:
	@$(PYTHON) tools/amalgamate.py build/amalgamation

bench: release
	@tools/deps.sh bench
	@cmake --build --preset release --target quipu_bench
	@$(PYTHON) bench/run.py

screenshots:
	$(call build_release,--target quipu_program)
	@tools/deps.sh test
	@QUIPU_BINARY_DIR="$(CURDIR)/build/release" $(PYTHON) tests/page/screenshots.py build/quipu \
		build/screenshots

bench-recall:
	$(call build_release,--target quipu_recall_ask)
	@$(PYTHON) bench/recall.py $(if $(DATA),"$(DATA)") $(RECALL_OPTIONS)

bench-go: release
	@cd bench/go && QUIPU_LIBRARY="$(CURDIR)/build/release/libquipu.so" CGO_ENABLED=0 \
		GOTOOLCHAIN=local "$$(../../tools/go.sh "$(CURDIR)/build/go")" run .

# The Node package with the frameworks that it has adapters for, from npm's registry.
test-node:
	@tools/deps.sh test
	@$(PYTHON) tools/test.py test-node

# The tarball of the npm package, with addons for x64 and arm64, tried in a folder of its own.
node-package:
	@tools/deps.sh wheels
	@"$$(tools/node.sh "$(CURDIR)/build/node")" bindings/node/build.js --package

# Beside better-sqlite3 and beside Mastra's own store; both need Node 22.
bench-node:
	@node="$$(tools/node.sh "$(CURDIR)/build/node" pinned)" && cd bench/node && \
		export PATH="$$(dirname "$$node"):$$PATH" && \
		node "$$(dirname "$$node")/../lib/node_modules/npm/bin/npm-cli.js" install --silent \
			--no-audit --no-fund && node ../../bindings/node/build.js && node bench.js && \
		node --preserve-symlinks --preserve-symlinks-main mastra.mjs && \
		node --preserve-symlinks --preserve-symlinks-main claude.mjs

# With cgo, so that "before" is the driver that Lango had.
bench-lango: release
	@cd bench/go/lango && QUIPU_LIBRARY="$(CURDIR)/build/release/libquipu.so" CGO_ENABLED=1 \
		GOTOOLCHAIN=local "$$(../../../tools/go.sh "$(CURDIR)/build/go")" run .

install: release
	@DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"

wheels:
	@tools/deps.sh wheels
	@$(PYTHON) packaging/wheels.py

deb:
	@tools/deps.sh deb
	$(call build_release)
	@$(PYTHON) tools/deb.py build/release build/deb

format:
	@$(PYTHON) tools/check_format.py --fix

deps:
	@tools/deps.sh check

clean:
	rm -rf build
