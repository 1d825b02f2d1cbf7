#!/bin/sh
# Plays a session of two agents and a maintainer in this folder, which becomes a repository of its own.
# What stands behind `run` and `commit` below is all that a person types.
set -eu
cd "$(dirname "$0")"
unset $(git rev-parse --local-env-vars) # the repository is the one of this folder, whatever the caller works in

run() { # run EXIT_CODE ARGUMENTS: shows the command, and stops where it ends in another way than it should
    printf '\n$ sortie %s\n' "$2"
    code=0
    eval "${SORTIE:-sortie} $2" || code=$?
    [ "$code" -eq "$1" ] || { echo "That ended with $code instead of $1." >&2; exit 1; }
}

commit() {
    git add --all .
    git -c user.name=Maintainer -c user.email=maintainer@localhost -c commit.gpgSign=false commit --quiet -m "$1"
}

if [ -e WORKLOG.md ]; then
    echo "A session was played here already. Copy the folder once more for another one." >&2
    exit 1
fi
if [ ! -e .git ]; then
    git init --quiet .
    commit "Before the session"
fi

run 0 'peers init'
run 0 'charter check'
run 0 'charter adopt'
run 0 'turn --next'
run 0 'turn ada --task "Greet in two languages."'
commit "Two languages"
run 0 'turn --next'
run 0 'turn ben --kind review'
run 0 'worklog decide "A flag, or LANG" "Go by LANG." --rationale "The reasons of ben."'
commit "Reviewed and decided"
run 0 'turn --next'
run 3 'turn ada --task "Do what was decided."' # 3: the maintainer has to look at something
git show --stat --format=%B refs/sortie/reverted/3
commit "Go by LANG"
run 0 'turn ada --kind mailbox'
run 0 'turn ben --task "Write the page."'
commit "The page"
run 0 'worklog status'
run 0 'worklog lint'
run 0 'worklog verify --git'
