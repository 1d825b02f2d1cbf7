#!/bin/sh
# An agent: reads its prompt, works in the checkout, and writes down by hand what it did. It does not know Sortie.
set -eu
task=$(sed -n '/^```*task-/,/^```/p')
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)

case $task in
*"two languages"*)
    cat > src/greet.sh <<'PROGRAM'
#!/bin/sh
# Greets whoever is named, with --de in German.
if [ "${1:-}" = --de ]; then shift; echo "Hallo, ${1:-Welt}!"; else echo "Hello, ${1:-world}!"; fi
PROGRAM
    printf 'en\nde\n' > schema/languages.txt
    [ "$(sh src/greet.sh --de Ben)" = "Hallo, Ben!" ]
    cat >> WORKLOG.md <<ENTRY

### $now — ada: Two languages, by a flag

\`\`\`text
Handoff: greet in two languages
Owner: ada
Status: Ready for review
Changed files:
- src/greet.sh
- schema/languages.txt
Tests run: sh src/greet.sh --de Ben (pass)
Risks/assumptions: people find the flag
Blocking items: none
Next owner: ben
\`\`\`
ENTRY
    sleep 1 # for people who watch
    echo "The program speaks two languages. Ben is next."
    ;;
*"was decided"*)
    # It does what it is asked for, and besides, what is ben's to do. Its mail it does not even look at.
    cat > src/greet.sh <<'PROGRAM'
#!/bin/sh
# Greets whoever is named, in the language of $LANG.
case ${LANG:-} in de*) echo "Hallo, ${1:-Welt}!" ;; *) echo "Hello, ${1:-world}!" ;; esac
PROGRAM
    echo "It speaks the language of LANG." >> docs/greet.md
    echo "The program goes by LANG now. I have put that on the page, too."
    ;;
*)
    # The mailbox: the one message there is gets its answer.
    sed -i "s/^| Status | new |/| Status | actioned |/
        /^- sortie — /a - ada — $now — actioned: English, in every language but German." MAILBOX.md
    echo "Answered."
    ;;
esac
