/* The agent of the measurements: next to no work, so that what is measured is ours.
 *
 * It stamps its first instruction and its last into $SORTIE_WORKFLOW_DIR/stamps, outside the workspace, in
 * lines of 40 bytes: what, issue, nanoseconds of CLOCK_MONOTONIC. S is a start, E an end, X a start while another
 * one of the same issue was alive. What it does beside is the last word of the name it was started by:
 *   done  signals that the issue is to be handed over
 *   turn  just ends, so that there is another turn
 *   task  delivers what a task of a plan owes: a result and a summary
 *   hold  stays alive, holding a lock that only one process of its issue can have
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *folder, *issue;

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int file(const char *name, int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, flags | O_CREAT | O_CLOEXEC, 0600);
}

static void stamp(char what, long long at) {
    char line[64];
    snprintf(line, sizeof line, "%c %-16.16s %20lld\n", what, issue, at);
    int stamps = file("stamps", O_WRONLY | O_APPEND);
    if (write(stamps, line, 40) != 40) _exit(3);
    close(stamps);
}

static void put(const char *name, const char *text) {
    int target = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t length = strlen(text);
    if (write(target, text, length) != (ssize_t)length) _exit(3);
    close(target);
}

static int does(const char *name, const char *word) {
    size_t length = strlen(name), wanted = strlen(word);
    return length >= wanted && strcmp(name + length - wanted, word) == 0;
}

int main(int count, char **words) {
    long long started = now();
    char buffer[4096], lock[64];
    (void)count;
    folder = getenv("SORTIE_WORKFLOW_DIR");
    issue = getenv("SORTIE_ISSUE_IDENTIFIER");
    if (!folder || !issue || chdir(getenv("SORTIE_WORKSPACE"))) return 3;
    if (does(words[0], "hold")) {
        snprintf(lock, sizeof lock, "held-%.32s", issue);
        int alone = flock(file(lock, O_RDWR), LOCK_EX | LOCK_NB) == 0;
        stamp(alone ? 'S' : 'X', started);
        for (;;) pause();
    }
    stamp('S', started);
    while (read(0, buffer, sizeof buffer) > 0) {}
    if (does(words[0], "done")) {
        mkdir(".sortie", 0700);
        put(".sortie/status", "needs-human-review\n");
    }
    if (does(words[0], "task")) {
        put("outbox/result.md", issue);
        put("outbox/summary.md", "Done.\n");
    }
    stamp('E', now());
    return 0;
}
