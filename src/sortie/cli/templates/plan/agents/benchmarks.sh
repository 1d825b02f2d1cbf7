#!/bin/sh
# Compares two columns of times. What is no number is not guessed: another attempt would find the same.
set -e
. "$SORTIE_WORKFLOW_DIR/agents/tell.sh"

tell running "checking the numbers" 0 2
bad=$(awk -F , '$2 !~ /^[0-9]+$/ || $3 !~ /^[0-9]+$/ { print $1; exit }' inbox/benchmarks.csv)
if [ -n "$bad" ]; then
    give_up BadInput "benchmarks.csv has no time for: $bad" "" false
fi
tell running "comparing" 1 2
awk -F , '{ printf "%s\t%d\n", $1, 100 * ($2 - $3) / $2 }' inbox/benchmarks.csv > outbox/comparison.tsv
cat > outbox/summary.md <<END
$(wc -l < outbox/comparison.tsv) measurements.

- [x] Every measurement is compared.
END
tell completed "done" 2 2
