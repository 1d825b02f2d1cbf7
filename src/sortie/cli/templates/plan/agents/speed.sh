#!/bin/sh
# Says in words what the comparison says in numbers. It knows nothing of status.json.
set -e
awk -F '\t' '{ print "- " $1 ": " $2 "% faster" }' inbox/benchmarks/comparison.tsv > outbox/speed.md
cat > outbox/summary.md <<END
$(wc -l < outbox/speed.md) lines about speed.

- [x] Every measurement is mentioned.
END
