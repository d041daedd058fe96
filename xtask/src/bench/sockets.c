/* Part of `cargo xtask bench remedy`. Prints how many seconds it took:
 *   sockets N      to make a socket and close it, N times
 *   connections N  to make one, connect it to a server of its own and close it, N times
 *   requests N     to send N requests and read their answers, 100 on each connection */
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

enum { PER_CONNECTION = 100, PER_ADDRESS = 4000, REQUEST = 200, ANSWER = 2000 };

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
static int serve(int answers) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) < 0
        || listen(listener, 4096) < 0
        || getsockname(listener, (struct sockaddr *)&address, &length) < 0) fail("listen");
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child > 0) return ntohs(address.sin_port);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0) continue;
        while (answers && recv(connection, bytes, REQUEST, MSG_WAITALL) == REQUEST) {
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
    if (count != 3) return 2;
    int n = atoi(arguments[2]);
    int requests = strcmp(arguments[1], "requests") == 0;
    int sockets = strcmp(arguments[1], "sockets") == 0;
    int port = sockets ? 0 : serve(requests);
    double start = now();
    for (int i = 0; sockets && i < n; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0) fail("socket");
        close(fd);
    }
    for (int i = 0; !sockets && i < (requests ? n / PER_CONNECTION : n); i++) {
        int fd = connected(port, i);
        for (int r = 0; requests && r < PER_CONNECTION; r++) {
            if (send(fd, bytes, REQUEST, 0) != REQUEST
                || recv(fd, bytes, ANSWER, MSG_WAITALL) != ANSWER) fail("request");
        }
        close(fd);
    }
    printf("%.6f\n", now() - start);
    return 0;
}
