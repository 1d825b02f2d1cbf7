/* The agent of a task in a plan whose conduct is laid down beforehand, whoever is killed meanwhile.
 *
 * $CHAOS_DIARY, outside of every task folder, has all that must be remembered: `conduct/TASK` is what this agent does,
 * `done/TASK` has a byte for each misdeed done, `locks/TASK` is locked for as long as the agent or anything that it
 * started lives, and `diary` has a line for each start and end, of all agents in the order in which they happened.
 *
 * What it delivers follows from its inbox alone: whoever gets something else delivers something else.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *diary, *task, *run;
static char misdeeds[256], at_last[64], tells[16];
static int slow_ms, has_daemon, tampers, turns, attempt;

static void need(int is_well) {
    if (!is_well) _exit(70);
}

static int in_diary(const char *directory, const char *name, int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", diary, directory, name);
    int file = open(path, flags | O_CREAT | O_CLOEXEC, 0600);
    need(file >= 0);
    return file;
}

static void note(const char *what) {
    char line[256];
    int length = snprintf(line, sizeof line, "%s %s %s %d\n", what, task, run, getpid());
    int file = in_diary("", "diary", O_WRONLY | O_APPEND);
    need(write(file, line, length) == length);
    close(file);
}

static void put(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644), length = strlen(text);
    need(file >= 0 && write(file, text, length) == length);
    close(file);
}

static void status(const char *state, const char *more) {
    char text[512], number[64] = "";
    if (strcmp(tells, "full") == 0) snprintf(number, sizeof number, ", \"attempt\": %d", attempt);
    snprintf(text, sizeof text, "{\"state\": \"%s\"%s%s}", state, number, more);
    put("status.json.new", text);
    need(rename("status.json.new", "status.json") == 0);
}

/* FNV-1a over the name and the content of every file, in the order of their names; but for the receipt, which tells by
 * which attempt something was delivered. */
static unsigned long long mixed(unsigned long long sum, const char *bytes, long length) {
    for (long at = 0; at < length; at++) sum = (sum ^ (unsigned char)bytes[at]) * 1099511628211ULL;
    return sum;
}

static unsigned long long digest(unsigned long long sum, const char *directory) {
    struct dirent **found;
    char path[4096], buffer[65536];
    int count = scandir(directory, &found, NULL, alphasort);
    need(count >= 0);
    for (int at = 0; at < count; at++) {
        const char *name = found[at]->d_name;
        if (name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", directory, name);
        sum = mixed(sum, path, strlen(path) + 1);
        if (found[at]->d_type == DT_DIR) {
            sum = digest(sum, path);
            continue;
        }
        int file = open(path, O_RDONLY);
        need(file >= 0);
        for (long length; (length = read(file, buffer, sizeof buffer)) > 0;) sum = mixed(sum, buffer, length);
        close(file);
    }
    return sum;
}

static void deliver(void) {
    char text[256];
    unsigned long long given = digest(14695981039346656037ULL, "inbox");
    mkdir("outbox/parts", 0755);
    for (const char **name = (const char *[]){"data.txt", "parts/one", "parts/two", "summary.md", NULL}; *name; name++) {
        char path[64];
        snprintf(path, sizeof path, "outbox/%s", *name);
        snprintf(text, sizeof text, "# %s of %s, from %016llx\n", *name, task, given);
        put(path, text);
    }
}

static void read_conduct(void) {
    char text[1024] = "", yes_daemon[8] = "", yes_tampers[8] = "";
    int file = in_diary("conduct/", task, O_RDONLY);
    need(read(file, text, sizeof text - 1) > 0);
    close(file);
    need(sscanf(text, "tells=%15s slow_ms=%d daemon=%7s tampers=%7s turns=%d at_last=%63s misdeeds=%255[^\n]", tells,
                &slow_ms, yes_daemon, yes_tampers, &turns, at_last, misdeeds) == 7);
    has_daemon = strcmp(yes_daemon, "yes") == 0;
    tampers = strcmp(yes_tampers, "yes") == 0;
}

static int attempt_on_record(void) {
    char text[4096] = "";
    int file = open("status.json", O_RDONLY);
    if (file < 0 || read(file, text, sizeof text - 1) < 0) return 0;
    close(file);
    char *found = strstr(text, "\"attempt\": ");
    return found ? atoi(found + 11) : 0;
}

/* The next one that was not done yet; the last word of the conduct when all are done. */
static const char *next_misdeed(void) {
    struct stat found;
    int done = in_diary("done/", task, O_WRONLY | O_APPEND);
    need(fstat(done, &found) == 0);
    char *word = strtok(misdeeds, " ");
    for (long skipped = 0; word && skipped < found.st_size; skipped++) word = strtok(NULL, " ");
    if (!word || strcmp(word, "none") == 0) return at_last;
    need(write(done, "x", 1) == 1);
    close(done);
    return word;
}

/* How the process ends where it does not behave; -1 where it is to go on. */
static int misbehave(const char *misdeed) {
    if (strcmp(misdeed, "fails") == 0) return 3;
    if (strcmp(misdeed, "dies") == 0) {
        note("end");
        raise(SIGKILL);
    }
    if (strcmp(misdeed, "lies") == 0) {
        put("outbox/stale.txt", "left\n");
        status("completed", "");
        return 0;
    }
    if (strcmp(misdeed, "breaks-off") == 0) {
        deliver();
        put("status.json", "{\"state\": \"compl");
        return 0;
    }
    if (strcmp(misdeed, "never-ends") == 0) {
        deliver();
        status("running", "");
        return 0;
    }
    if (strcmp(misdeed, "says-failed") == 0) {
        status("failed", ", \"error\": {\"type\": \"Mood\", \"message\": \"not today\"}");
        return 0;
    }
    if (strcmp(misdeed, "gives-up") == 0) {
        status("failed", ", \"error\": {\"message\": \"never\", \"recoverable\": false}");
        return 0;
    }
    if (strcmp(misdeed, "links-out") == 0) {
        deliver();
        need(symlink("/etc/passwd", "outbox/more") == 0);
        status("completed", "");
        return 0;
    }
    return -1;
}

int main(void) {
    char buffer[4096];
    diary = getenv("CHAOS_DIARY");
    task = getenv("SORTIE_ISSUE_IDENTIFIER");
    run = getenv("SORTIE_RUN_ID");
    need(diary && task && run);
    int lock = in_diary("locks/", task, O_RDWR);
    if (flock(lock, LOCK_EX | LOCK_NB)) {
        note("VIOLATION");
        return 9;
    }
    note("start");
    while (read(0, buffer, sizeof buffer) > 0) {}
    read_conduct();
    attempt = attempt_on_record();
    if (has_daemon && fork() == 0) {
        fcntl(lock, F_SETFD, 0);
        setsid();
        execlp("sleep", "sleep", "60", NULL);
        _exit(71);
    }
    if (turns == 2 && access("workspace/begun", F_OK)) {
        put("workspace/begun", "");
        note("turn");
        return 0;
    }
    if (strcmp(tells, "full") == 0) status("running", "");
    usleep(1000 * slow_ms);
    int code = misbehave(next_misdeed());
    if (code < 0) {
        code = 0;
        deliver();
        if (tampers) {
            need(chmod("inbox/instructions.md", 0644) == 0);
            put("inbox/instructions.md", "something else\n");
        }
        if (strcmp(tells, "nothing")) status("completed", "");
    }
    note("end");
    return code;
}
