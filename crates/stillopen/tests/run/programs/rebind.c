/* Binds the same address 20,000 times, each time after its own close. Prints how often it was in use. Nobody else may
 * take a port meanwhile: it needs a network namespace of its own, whose loopback may be down. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof address;
    int in_use = 0, failed = 0;
    for (int i = 0; i < 20000; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
            if (errno == EADDRINUSE) in_use++; else failed++;
        } else if (listen(fd, 1) < 0 || getsockname(fd, (struct sockaddr *)&address, &length) < 0) {
            failed++;
        }
        close(fd);
    }
    printf("%d %d\n", in_use, failed);
    return 0;
}
