# Every target installs what it needs: on a new machine Python 3.11+ and make are enough.
PY ?= python3
BIN := .venv/bin
# aiohttp obeys these even for 127.0.0.1; nothing here talks to anything but loopback.
export HTTP_PROXY :=
export HTTPS_PROXY :=
export http_proxy :=
export https_proxy :=

.PHONY: install browser try test check lint types fast bench lock format

install: .venv/installed

.venv/installed: pyproject.toml requirements.lock
	@test -x $(BIN)/python || $(PY) -m venv .venv
	@test -x $(BIN)/uv || $(BIN)/python -m pip install -q --disable-pip-version-check uv
	@VIRTUAL_ENV=.venv $(BIN)/uv pip sync -q --require-hashes requirements.lock
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install -q --no-deps -e .
	@touch $@

try: install
	@$(BIN)/plimsoll try $(if $(REAL),--real,)

test: install browser
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest tests
	@$(BIN)/coverage report

# The tests of pages drive Debian's Chromium; elsewhere set CHROMIUM to a browser of that kind.
browser:
	@test -n "$$CHROMIUM" || command -v chromium > /dev/null || \
		(apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium > /dev/null)

# Format, lint, types, import contracts and the fast tests, side by side: under a minute.
check: install
	@$(MAKE) --no-print-directory -j2 -Otarget lint types fast

lint: install
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports --no-cache > .venv/imports.log || (cat .venv/imports.log; exit 1)

types: install
	@$(BIN)/mypy

fast: install
	@$(BIN)/pytest tests -m "not wire" -n auto

bench: install
	@$(BIN)/python -m tests.bench

format: install
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# The only target that changes versions; it writes no index address.
lock: install
	@$(BIN)/uv pip compile pyproject.toml --all-extras --universal --generate-hashes --no-header -q -U -o requirements.lock
