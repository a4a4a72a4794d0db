#!/usr/bin/env bash
# Runs the trust matrix, all 21 rows, at full numbers, and prints a table: row | test | numbers | seconds | result.
#
#   scripts/long_trust.sh             every row; about an hour and a half on two cores, more beside other work
#   scripts/long_trust.sh 7 9 12      these rows only
#   PROVSTORE_LONG=0 scripts/long_trust.sh
#                                     the share of the matrix that every test run does, in the same table
#
# Needs what `make test` needs (.venv with the dev packages; Java and Maven, or Docker, or PROVSTORE_TEST_NEO4J_URI for
# Neo4j). A tool that is missing is a skip, listed by name at the end; a failure makes the exit code 1.
#
# Environment:
#   PROVSTORE_LONG            1 (default here): long numbers; 0: the share of every run
#   PROVSTORE_TRUST_SEED      repeats the random choices of an earlier run; printed at the start
#   PROVSTORE_FLIPS_SEED      the same for the bit flips of row 5
#   PROVSTORE_VECTORS         a folder with public test vectors (Wycheproof, C2SP CCTV, transparency-dev/merkle)
#   PROVSTORE_TRUST_<NAME>    one number of one row instead of the matrix's, for example
#     KILLS_INGEST, KILLS_SEAL, KILLS_EXPORT (row 7; 200, 100, 50)      MEMORY_STEPS (row 10; 20)
#     FUZZ_SECONDS (row 11; 60 a target)                                HISTORIES (row 12; 2000)
#     WRITER_RECORDS (row 15; 5000 a writer)                            CUTS (row 16; 200)
#   PROVSTORE_MUTATE_MINUTES  time for row 20 (15; 0 leaves it out, and says so)
#   PROVSTORE_TRUST_LOGS      folder for the whole output of each row (default: a temporary one)
#   PYTEST_ADDOPTS            further pytest options, for example "-n 2"
set -uo pipefail
cd "$(dirname "$0")/.."
export PROVSTORE_LONG="${PROVSTORE_LONG:-1}"
export PROVSTORE_TRUST_SEED="${PROVSTORE_TRUST_SEED:-$((RANDOM * 32768 + RANDOM))}"
export PROVSTORE_FLIPS_SEED="${PROVSTORE_FLIPS_SEED:-$PROVSTORE_TRUST_SEED}"
python=.venv/bin/python
[ -x "$python" ] || { echo "long_trust: no .venv here: make test sets it up" >&2; exit 2; }
logs="${PROVSTORE_TRUST_LOGS:-$(mktemp -d -t provstore-trust.XXXXXX)}"
mkdir -p "$logs"
long=$([ "$PROVSTORE_LONG" = 1 ] && echo yes || echo)
wanted=" $* "
table="" failed=0

either() { [ -n "$long" ] && echo "$1" || echo "$2"; }

add() { # row, test, numbers, seconds, result
    table+="$(printf '%3s | %-44s | %-34s | %7s | %s' "$@")"$'\n'
    printf '%3s | %-44s | %-34s | %7s | %s\n' "$@"
}

skipped_row() { [ "$wanted" != "  " ] && [[ "$wanted" != *" $1 "* ]]; }

# Runs pytest for one row: row, test, numbers, then pytest's arguments.
row() {
    local number=$1 test=$2 numbers=$3 log start status last
    skipped_row "$number" && return
    shift 3
    log="$logs/row-$number.log"
    start=$SECONDS
    "$python" -m pytest -q -rs --durations=5 "$@" >"$log" 2>&1
    status=$?
    last=$(grep -E '^[0-9]+ (passed|failed|skipped|error|deselected)|^no tests ran' "$log" | tail -1 | sed 's/ in [0-9].*//; s/=//g')
    if [ "$status" -ne 0 ]; then
        failed=1
        add "$number" "$test" "$numbers" $((SECONDS - start)) "FAILED: ${last:-see $log}"
    else
        add "$number" "$test" "$numbers" $((SECONDS - start)) "$last"
    fi
}

# Runs a program for one row: row, test, numbers, then the command.
program() {
    local number=$1 test=$2 numbers=$3 log start status
    skipped_row "$number" && return
    shift 3
    log="$logs/row-$number.log"
    start=$SECONDS
    "$@" >"$log" 2>&1
    status=$?
    [ "$status" -eq 0 ] || failed=1
    add "$number" "$test" "$numbers" $((SECONDS - start)) "$([ "$status" -eq 0 ] && echo passed || echo "FAILED: see $log")"
}

echo "seed $PROVSTORE_TRUST_SEED; long: ${long:-no}; output of each row: $logs"
T=tests/trust
row 1 "vectors" "all" tests/vectors tests/unit/evidence/test_keys.py tests/unit/evidence/test_key_files.py
row 2 "foreign verifiers" "all that are present" tests/foreign
row 3 "key id x verifier" "whole table" tests/foreign -k "key_id or keyid"
row 4 "23 mutations x engine x anchor" "$(either 'embedded and Neo4j' embedded)" \
    tests/systems/test_mutations_journal.py tests/systems/test_mutations_graph.py tests/unit/evidence/test_verify_mutations.py
row 5 "single-bit flips" "$(either 'every bit' '6,000 or a share')" \
    tests/systems/test_bit_flips.py tests/systems/test_bit_flips_exports.py tests/unit/journal/test_journal_flips.py
row 6 "flips and edits of the database" "$(either long share)" $T/test_row06_file_flips.py tests/systems/test_tampered_store.py
row 7 "kill -9: ingest / seal / export and rotation" "$(either 200/100/50 16/8/4)" $T/test_row07_kills.py
row 8 "journal fault layer" "every n" $T/test_row08_fault_script.py tests/unit/journal/test_journal_faults.py
row 9 "disk full" "$(either '5 sizes, 4/8/16 MB disks' '5 sizes')" $T/test_row09_disk_full.py
row 10 "address space during verify" "$(either 20 3) steps" $T/test_row10_memory.py
row 11 "coverage-guided fuzz" "7 x $(either '60 s' '40,000 inputs, fewer with files')" $T/test_row11_fuzz.py
row 12 "histories; canonical JSON; round trip; trees" "$(either '2,000; 5,000; all' '40; a share; all')" \
    $T/test_row12_histories.py tests/vectors/test_canonical_rfc8785.py tests/vectors/test_rfc6962.py \
    tests/integration/test_evidence_values.py
row 13 "hostile files" "generated set" $T/test_row13_hostile_files.py tests/unit/sources/test_bad_input.py \
    tests/unit/evidence/test_hostile_bytes.py
row 14 "injection list" "$(either 'all engines' embedded)" tests/integration/test_evidence_values.py tests/unit/cypher/test_guard.py
row 15 "concurrent writers" "$(either '4 + 4 x 5,000' '2 + 2 x 400')" $T/test_row15_writers.py
row 16 "Bolt through a fault proxy" "$(either 200 8) cuts" $T/test_row16_bolt_faults.py
row 17 "clocks" "injected$(either ', libfaketime' '')" $T/test_row17_clocks.py
if ! skipped_row 18; then add 18 "web interface" "-" 0 "left out: there is no web interface"; fi
row 19 "canaries" "12 + 2" $T/test_row19_canaries.py
if [ -n "$long" ] && [ "${PROVSTORE_MUTATE_MINUTES:-15}" != 0 ]; then
    program 20 "mutation testing" "${PROVSTORE_MUTATE_MINUTES:-15} minutes" "$python" scripts/mutate_trust.py
elif ! skipped_row 20; then
    add 20 "mutation testing" "-" 0 "left out: $(either PROVSTORE_MUTATE_MINUTES=0 'in the long run only')"
fi
if [ -n "$long" ]; then
    program 21 "floors of speed and memory" "1,000,000 records, medians of 5" "$python" bench/trust.py --repeat 5
else
    row 21 "floors of speed and memory" "20,000 records" $T/test_row21_floors.py
fi

echo
echo "row | test                                         | numbers                            | seconds | result"
printf '%s' "$table"
echo
echo "skipped:"
grep -hE '^SKIPPED' "$logs"/row-*.log 2>/dev/null | sed 's/^SKIPPED /  /' | sort -u || true
[ "$failed" = 0 ] && echo "all rows passed, $SECONDS s" || echo "there are failures, $SECONDS s; see $logs"
exit "$failed"
