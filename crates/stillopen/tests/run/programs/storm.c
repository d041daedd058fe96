/* 50 threads make sockets while others fork, exec and spawn, and signals with a handler rain on all of them.
 * Prints how many sockets have keepalive 60/30/3, how many have not, and how many calls failed.
 * With an argument: a child that makes so many, and ends with the number of those that are not armed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 50, EACH = 200, CHILDREN = 60, OF_A_CHILD = 10, FOR_A_SIGNAL = 10 };

static atomic_long armed, unarmed, failed, signals, started;
static atomic_int done;
static char *self;
extern char **environ;

static int option(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    getsockopt(fd, level, name, &value, &length);
    return value;
}

static void make(int number) {
    int domain = number % 2 ? AF_INET : AF_INET6;
    int flags = (number & 2 ? SOCK_CLOEXEC : 0) | (number & 4 ? SOCK_NONBLOCK : 0);
    int fd = socket(domain, SOCK_STREAM | flags, number & 8 ? IPPROTO_TCP : 0);
    if (fd < 0) {
        failed++;
        return;
    }
    int right = option(fd, SOL_SOCKET, SO_KEEPALIVE) == 1
        && option(fd, IPPROTO_TCP, TCP_KEEPIDLE) == 60
        && option(fd, IPPROTO_TCP, TCP_KEEPINTVL) == 30
        && option(fd, IPPROTO_TCP, TCP_KEEPCNT) == 3;
    if (right) armed++; else unarmed++;
    close(fd);
}

static void *makes(void *number) {
    for (int i = 0; i < EACH; i++) {
        /* However the threads are scheduled, signals come all the while. */
        while (signals < started / FOR_A_SIGNAL) sched_yield();
        started++;
        make((int)(long)number + i);
    }
    return NULL;
}

static void ended(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0) {}
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) failed++;
    else armed += OF_A_CHILD;
}

static void *starts(void *unused) {
    (void)unused;
    char count[8];
    snprintf(count, sizeof count, "%d", OF_A_CHILD);
    char *const arguments[] = {self, count, NULL};
    for (int i = 0; i < CHILDREN; i++) {
        pid_t pid = -1;
        if (i % 3 == 0) {
            pid = fork();
            if (pid == 0) {
                unarmed = failed = 0;
                for (int n = 0; n < OF_A_CHILD; n++) make(n);
                _exit(unarmed + failed > 0);
            }
        } else if (i % 3 == 1) {
            pid = vfork();
            if (pid == 0) {
                execv(self, arguments);
                _exit(100);
            }
        } else if (posix_spawn(&pid, self, NULL, NULL, arguments, environ) != 0) {
            pid = -1;
        }
        if (pid < 0) failed++; else ended(pid);
    }
    return NULL;
}

static void handled(int signal) { (void)signal; signals++; }

static void *rains(void *unused) {
    (void)unused;
    while (!done) {
        kill(getpid(), SIGURG);
        sched_yield();
    }
    return NULL;
}

int main(int count, char **arguments) {
    if (count > 1) {
        for (int i = 0; i < atoi(arguments[1]); i++) make(i);
        return unarmed + failed > 0;
    }
    self = arguments[0];
    struct sigaction action = {.sa_handler = handled, .sa_flags = SA_RESTART};
    sigaction(SIGURG, &action, NULL);
    pthread_t rain, starter, makers[THREADS];
    pthread_create(&rain, NULL, rains, NULL);
    pthread_create(&starter, NULL, starts, NULL);
    for (long i = 0; i < THREADS; i++) pthread_create(&makers[i], NULL, makes, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(makers[i], NULL);
    pthread_join(starter, NULL);
    done = 1;
    pthread_join(rain, NULL);
    printf("%ld %ld %ld %d\n", armed, unarmed, failed, signals >= THREADS * EACH / FOR_A_SIGNAL - 1);
    return 0;
}
