#!/bin/sh
# A complete agent: the prompt comes on standard input, the workspace is the current directory.
cat > prompt.txt
echo "working on $SORTIE_ISSUE_IDENTIFIER, turn $SORTIE_TURN"
mkdir -p .sortie
if grep -q "API key" prompt.txt; then
    printf 'blocked\nreason: the task needs an API key that is not here\n' > .sortie/status
else
    echo "done" > result.txt
    echo needs-human-review > .sortie/status
fi
