#!/bin/sh
# Looks for changes that break something. Whether those may be released is not for an agent to decide.
set -e
. "$SORTIE_WORKFLOW_DIR/agents/tell.sh"

tell running "reading the notes" 0 1
grep BREAKING inbox/notes/release-notes.md > workspace/breaking.md || true
{
    echo "# Feedback"
    echo
    echo "$(wc -l < workspace/breaking.md) change breaks what users have:"
    echo
    cat workspace/breaking.md
} > outbox/feedback.md
if [ -s workspace/breaking.md ]; then
    cat > outbox/summary.md <<END
One change breaks what users have; see feedback.md.

- [ ] No change breaks anything, or a person agrees to it.
END
    give_up NeedsDecision "a change breaks what users have; may it be released?" "see outbox/feedback.md" false
fi
echo "Nothing breaks what users have." > outbox/summary.md
tell completed "done" 1 1
