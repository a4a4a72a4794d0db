#!/usr/bin/env bash
# Makes .venv with what `make demo` (core) or `make test` (dev) needs. Installs Debian packages when root; else says which.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=${1:?core or dev}
venv=.venv

fail() { echo "provstore: setup: $*" >&2; exit 1; }

# Runs a command, shows its output only when it fails.
quietly() {
    local log
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        fail "$1 failed: see above"
    fi
    rm -f "$log"
}

apt_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "missing: install $* (Debian names) and run again"
    echo "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    quietly apt-get update -qq
    quietly apt-get install -y -qq --no-install-recommends "$@"
}

# Prints the first Python that is new enough and can make environments.
find_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$name"
            return
        fi
    done
    return 1
}

python_of_venv_works() { "$venv/bin/python" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

if ! python_of_venv_works; then
    python=$(find_python) || { apt_install python3 python3-venv; python=$(find_python) || fail "no Python 3.11 or newer found"; }
    echo "making $venv with $("$python" --version)"
    rm -rf "$venv"
    quietly "$python" -m venv "$venv"
fi

case $profile in
core) what=. ;;
dev) what='.[dev,all]' ;;
*) fail "$profile: not a profile: core or dev" ;;
esac
echo "installing $what into $venv"
quietly "$venv/bin/python" -m pip install --quiet --no-input --editable "$what"

if [ "$profile" = dev ] && [ -z "${PROVSTORE_TEST_NEO4J_URI:-}" ]; then
    # The tests run a real Neo4j: its jars come from Maven, a JDK runs it.
    missing=()
    command -v javac >/dev/null || missing+=(default-jdk-headless)
    command -v mvn >/dev/null || missing+=(maven)
    [ ${#missing[@]} = 0 ] || apt_install "${missing[@]}"
fi
if [ "$profile" = dev ] && ! docker compose version >/dev/null 2>&1 && ! command -v docker-compose >/dev/null; then
    # Checks docker/compose.yaml; its test is skipped without it.
    [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || (apt_install docker-compose) || true
fi
if [ "$profile" = dev ]; then
    # Other programs check what is signed here (tests/foreign); without one its tests are skipped, or fail where CI is set.
    missing=()
    command -v openssl >/dev/null || missing+=(openssl)
    command -v ssh-keygen >/dev/null || missing+=(openssh-client)
    command -v minisign >/dev/null || missing+=(minisign)
    command -v signify-openbsd >/dev/null || missing+=(signify-openbsd)
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
    if [ ${#missing[@]} != 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        (apt_install "${missing[@]}") || true
    fi
    # Fetched once, outside the checkout, so that the tests themselves need no network.
    "$venv/bin/python" tests/foreign/tools.py || true
fi
touch "$venv/.$profile"
[ "$profile" = core ] || touch "$venv/.core"
