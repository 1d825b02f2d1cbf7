#!/bin/sh
# The other agent: objects to what it reviews, asks a question, and writes the page.
set -eu
task=$(sed -n '/^```*task-/,/^```/p')
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)

case $task in
*"the page"*)
    cat > docs/greet.md <<'PAGE'
# Greetings

`sh src/greet.sh NAME` greets NAME in the language of LANG: in German with `LANG=de`, else in English.
PAGE
    cat >> WORKLOG.md <<ENTRY

### $now — ben: The page says how to choose a language

\`\`\`text
Handoff: write the page
Owner: ben
Status: Complete
Changed files: docs/greet.md
Tests run: both examples of the page, by hand (pass)
Risks/assumptions: none
Blocking items: none
Next owner: none
\`\`\`
ENTRY
    # Who asked closes.
    sed -i "s/^| Status | actioned |/| Status | closed (resolved) |/
        /^- ada — /a - Closed (resolved) — ben — $now — it is on the page" MAILBOX.md
    echo "The page is written."
    ;;
*)
    # A review. Where it disagrees, it says what it would do instead, and why.
    cat >> WORKLOG.md <<ENTRY

### $now — ben: A flag, or LANG

**ada recommended:** a flag, --de

**ben's counter-recommendation:** go by LANG, as other programs do

**Reasoning:**
- people have set it already
- the page needs one sentence instead of a table of flags
ENTRY
    today=MSG-$(date -u +%Y%m%d)
    card=$(mktemp)
    cat > "$card" <<CARD

### $today-$(printf %03d $(($(grep -c "^### $today" MAILBOX.md) + 1)))

| Field | Value |
|---|---|
| Date | $now |
| From | ben |
| To | ada |
| Type | request |
| Priority | P0 |
| Status | new |
| Subject | What is said in a language that we do not speak? |

**Summary**

> I cannot write the page before I know it.
CARD
    sed -i "/^## Active Messages/r $card" MAILBOX.md
    rm "$card"
    sleep 1 # for people who watch
    echo "I disagree, and I have a question."
    ;;
esac
