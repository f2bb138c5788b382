#!/usr/bin/env bash
# Runs CTest in a build folder and closes with a line that people and CI read: "N passed, N failed, N skipped".
#
#   scripts/run_tests.sh BUILD_FOLDER [ctest options, such as -L '^long$']
#
# Exit status: CTest's own; not 0 either when no test ran. Two tests run at once; those that need every core say RUN_SERIAL.
set -uo pipefail

folder=$1
shift
results=$folder/test-results.xml
rm -f "$results"
ctest --test-dir "$folder" -j 2 --output-on-failure --no-tests=error --output-junit "$PWD/$results" "$@"
status=$?
[ -e "$results" ] || exit $((status ? status : 1))

# JUnit's first element: <testsuite ... tests="57" failures="0" disabled="0" skipped="2" ...>, one attribute a line in CTest's.
count() { grep -o -m 1 "[[:space:]]$1=\"[0-9]*\"" "$results" | head -1 | tr -dc 0-9; }
failed=$(count failures) skipped=$(($(count skipped) + $(count disabled)))
[ "$skipped" = 0 ] || grep -B1 -E '<skipped|status="disabled"' "$results" | sed -n 's/.*<testcase name="\([^"]*\)".*/skipped: \1/p'
echo "$(($(count tests) - failed - skipped)) passed, $failed failed, $skipped skipped"
exit $status
