#!/bin/sh
# Announces what the notes say. It knows nothing of status.json.
set -e
count() { sed -n "/^## $1/,/^## [^$1]/p" inbox/release-notes.md | grep -c '^- '; }

cat > outbox/announcement.md <<END
Kettle 2.4 is out: $(count New) new features and $(count Fix) fixes.
END
cat > outbox/summary.md <<END
The announcement is one line.

- [x] It says how many features and fixes there are.
END
