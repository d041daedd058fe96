/* Part of `cargo xtask bench remedy`. Prints how many seconds it took:
 *   sockets N           to make a socket and close it, N times
 *   connections N PORT  to make one, connect it to a server on this host and close it, N times
 *   requests N PORT     to send N requests and read their answers, 100 on each connection
 * and is that server, in a process that `run` has not started, until its parent ends:
 *   serve connections|requests  prints its port */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PER_CONNECTION = 100, PER_ADDRESS = 4000, BODY = 1024 };

static const char request[] = "GET /jobs/4711 HTTP/1.1\r\nHost: jobs.example.com\r\n"
                              "User-Agent: bench\r\nAccept: application/json\r\n\r\n";
static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                           "Content-Length: 1024\r\nConnection: keep-alive\r\n\r\n";
enum { REQUEST = sizeof request - 1, HEAD = sizeof head - 1, ANSWER = HEAD + BODY };

static char bytes[ANSWER];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Answers each request, or only takes connections and closes them. */
static void serve(int answers) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) < 0
        || listen(listener, 4096) < 0
        || getsockname(listener, (struct sockaddr *)&address, &length) < 0) fail("listen");
    memcpy(bytes, head, HEAD);
    char asked[REQUEST];
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0) continue;
        while (answers && recv(connection, asked, REQUEST, MSG_WAITALL) == REQUEST) {
            if (send(connection, bytes, ANSWER, MSG_NOSIGNAL) != ANSWER) break;
        }
        close(connection);
    }
}

/* Closed connections keep a pair of address and port for a minute: all of 127.0.0.0/8 is this host. */
static int connected(int port, int number) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) fail("socket");
    unsigned host = getpid() % 60000 * 200 + number / PER_ADDRESS;
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(0x7F000001 + host),
    };
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("connect");
    return fd;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    if (strcmp(arguments[1], "serve") == 0) serve(strcmp(arguments[2], "requests") == 0);
    int n = atoi(arguments[2]);
    int requests = strcmp(arguments[1], "requests") == 0;
    int sockets = strcmp(arguments[1], "sockets") == 0;
    if (!sockets && count < 4) return 2;
    int port = sockets ? 0 : atoi(arguments[3]);
    double start = now();
    for (int i = 0; sockets && i < n; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0) fail("socket");
        close(fd);
    }
    for (int i = 0; !sockets && i < (requests ? n / PER_CONNECTION : n); i++) {
        int fd = connected(port, i);
        for (int r = 0; requests && r < PER_CONNECTION; r++) {
            if (send(fd, request, REQUEST, 0) != REQUEST
                || recv(fd, bytes, ANSWER, MSG_WAITALL) != ANSWER) fail("request");
        }
        close(fd);
    }
    printf("%.6f\n", now() - start);
    return 0;
}
