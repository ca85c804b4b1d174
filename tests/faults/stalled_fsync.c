/* A disk whose syncs can be stalled: fsync and fdatasync wait while the file
 * $ACKQ_STALL exists, and say that they wait by making $ACKQ_STALL.waiting.
 * Preloaded into a redis-server by tests/faults/disk.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_while_stalled(void) {
    const char *stall = getenv("ACKQ_STALL");
    char waiting[4096];
    if (stall == NULL || access(stall, F_OK) != 0) return;
    snprintf(waiting, sizeof waiting, "%s.waiting", stall);
    close(open(waiting, O_CREAT | O_WRONLY, 0600));
    while (access(stall, F_OK) == 0) usleep(1000);
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int)) dlsym(RTLD_NEXT, "fsync");
    wait_while_stalled();
    return real(fd);
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
    wait_while_stalled();
    return real(fd);
}
