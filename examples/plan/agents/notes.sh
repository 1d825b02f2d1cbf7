#!/bin/sh
# Puts together what three tasks delivered: each is in a directory of the inbox that bears its name.
set -e
. "$SORTIE_WORKFLOW_DIR/agents/tell.sh"

tell running "reading the sections" 0 2
cat inbox/features/section.md inbox/fixes/section.md inbox/credits/credits.md > workspace/sections.md
tell running "putting them together" 1 2
{
    echo "# Kettle 2.4"
    sed 's/^##/\n##/' workspace/sections.md
} > outbox/release-notes.md
cat > outbox/summary.md <<END
The notes have three sections and $(grep -c '^- ' outbox/release-notes.md) lines.

- [x] All sections are in it.
- [x] The credits come last.
END
tell completed "done" 2 2
