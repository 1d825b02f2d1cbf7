#!/bin/sh
# An agent in ten lines: replace it by a call of your own, such as `claude -p`.
# It runs in the workspace of the issue, the prompt comes on standard input.
prompt=$(cat)
echo "Working on $SORTIE_ISSUE_IDENTIFIER, attempt $SORTIE_ATTEMPT, turn $SORTIE_TURN."
printf '%s\n' "$prompt" > prompt.txt

# Tell the orchestrator: "needs-human-review" when done, "blocked" when a person is needed.
mkdir -p .sortie
printf 'needs-human-review\nreason: I wrote prompt.txt; please look at it.\n' > .sortie/status
