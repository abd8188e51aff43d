/* The least that a client can do for `send`: one connection, two requests written by hand, blocking reads.
   post SOCKET WORKER: posts "hi" to the worker and waits for the end of the turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static char answer[65536];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Sends one request; leaves the body of its answer, which has a Content-Length, in `answer`. */
static void ask(int fd, const char *path, const char *key, const char *body) {
    char request[4096];
    int length = snprintf(request, sizeof request,
        "POST %s HTTP/1.1\r\nHost: localhost\r\n%s%s%sContent-Length: %zu\r\n\r\n%s",
        path, key ? "Idempotency-Key: " : "", key ? key : "", key ? "\r\n" : "", strlen(body), body);
    if (length < 0 || (size_t)length >= sizeof request || write(fd, request, length) != length) fail("write");
    size_t have = 0, whole = 0;
    char *text = NULL;
    while (!whole || have < whole) {
        ssize_t got = read(fd, answer + have, sizeof answer - 1 - have);
        if (got <= 0) fail("read");
        have += (size_t)got;
        answer[have] = 0;
        if (!whole && (text = strstr(answer, "\r\n\r\n"))) {
            text += 4;
            for (char *line = answer; line < text; line = strstr(line, "\r\n") + 2)
                if (!strncasecmp(line, "content-length:", 15)) whole = (size_t)(text - answer) + strtoul(line + 15, NULL, 10);
            if (!whole) fail("no length");
        }
    }
    if (strncmp(answer, "HTTP/1.1 200", 12)) {
        fputs(answer, stderr);
        exit(1);
    }
}

/* The text of a field of the answer. */
static void field(const char *name, char *to, size_t room) {
    char mark[64];
    snprintf(mark, sizeof mark, "\"%s\":\"", name);
    char *from = strstr(answer, mark);
    if (!from) fail(name);
    from += strlen(mark);
    snprintf(to, room, "%.*s", (int)strcspn(from, "\""), from);
}

int main(int count, char **words) {
    if (count != 3) return 2;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strncpy(to.sun_path, words[1], sizeof to.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) fail("connect");

    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char key[64], path[256], cursor[64], turn[64], body[512];
    snprintf(key, sizeof key, "post-%ld-%ld-%d", (long)now.tv_sec, now.tv_nsec, getpid());
    snprintf(path, sizeof path, "/v1/workers/%s/turns", words[2]);
    ask(fd, path, key, "{\"text\":\"hi\"}");
    field("acceptedEventId", cursor, sizeof cursor);
    field("turnId", turn, sizeof turn);

    snprintf(path, sizeof path, "/v1/workers/%s/wait", words[2]);
    snprintf(body, sizeof body, "{\"fromEventId\":\"%s\",\"collectTurn\":\"%s\",\"timeoutSeconds\":60}", cursor, turn);
    ask(fd, path, NULL, body);
    if (!strstr(answer, "turn.completed")) {
        fputs(answer, stderr);
        return 1;
    }
    return 0;
}
