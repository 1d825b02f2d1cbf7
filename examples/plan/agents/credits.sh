#!/bin/sh
# Looks up the names of the authors. Its first attempt fails, as things on a network do.
set -e
sleep 0.4
if [ "$SORTIE_ATTEMPT" = 1 ]; then
    echo "the directory of names does not answer" >&2
    exit 1
fi

{
    echo "## Thanks to"
    echo
    while read -r account; do
        awk -F '\t' -v account="$account" '$1 == account { print "- " $2 }' inbox/people.tsv
    done < inbox/collect/authors.txt
} > outbox/credits.md
cat > outbox/summary.md <<END
$(grep -c '^- ' outbox/credits.md) people.

- [x] Every author is named.
END
