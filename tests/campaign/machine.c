/* An unreliable machine for one server. Preloaded by tests/campaign/machine.py, which maps the
 * same page: a clock that is set, a disk whose syncs wait, a disk that is full. Which bytes of a
 * file a sync has covered is noted, so that a power cut can lose the others. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct page {
    volatile int64_t ahead;    /* µs by which the clock is ahead */
    volatile int32_t stalled;  /* syncs wait while this is set */
    volatile int32_t waiting;  /* a sync has waited */
    volatile int32_t full;     /* writes to files fail */
    volatile int64_t shown;    /* µs since the epoch at which the clock stands still, or 0 */
    volatile int64_t written;  /* ns of CLOCK_MONOTONIC when the last write to a log began */
    volatile int64_t durable;  /* the same, of the last write that a finished sync has covered */
};

static struct page none, *page = &none;
static int synced = -1; /* file of "inode size" lines */

/* The kernel is called directly: allocators use these functions before any library is ready. */
static ssize_t real_write(int fd, const void *bytes, size_t count) {
    return syscall(SYS_write, fd, bytes, count);
}

static int real_clock(clockid_t clock, struct timespec *now) {
    return syscall(SYS_clock_gettime, clock, now);
}

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("ACKQ_MACHINE");
    char name[4096];
    if (path == NULL) return;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED) return;
    page = mapped;
    snprintf(name, sizeof name, "%s.synced", path);
    synced = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static int is_log(int fd) { return (fcntl(fd, F_GETFL) & O_APPEND) != 0; }

static int sync_to_disk(int fd) {
    struct stat before;
    char line[64];
    int64_t written = page->written;
    int known = fstat(fd, &before) == 0; /* what is written during the sync may be lost */
    while (page->stalled) {
        page->waiting = 1;
        usleep(500);
    }
    if (known && synced >= 0) {
        int length = snprintf(line, sizeof line, "%llu %lld\n",
                              (unsigned long long) before.st_ino, (long long) before.st_size);
        if (real_write(synced, line, length) != length) abort();
    }
    if (is_log(fd)) page->durable = written;
    return 0; /* the real disk need not work: only this machine's power is ever cut */
}

int fsync(int fd) { return sync_to_disk(fd); }

int fdatasync(int fd) { return sync_to_disk(fd); }

ssize_t write(int fd, const void *bytes, size_t count) {
    struct stat about;
    struct timespec begin;
    if (page->full && fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
        errno = ENOSPC;
        return -1;
    }
    if (!is_log(fd)) return real_write(fd, bytes, count);
    real_clock(CLOCK_MONOTONIC, &begin);
    ssize_t done = real_write(fd, bytes, count);
    if (done == (ssize_t) count) page->written = begin.tv_sec * 1000000000LL + begin.tv_nsec;
    return done;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = real_clock(clock, now);
    int64_t ahead = page->ahead, still = page->shown;
    if (result == 0 && (ahead || still) && clock == CLOCK_REALTIME) {
        int64_t shown = still ? still * 1000
                              : now->tv_sec * 1000000000 + now->tv_nsec + ahead * 1000;
        now->tv_sec = shown / 1000000000;
        now->tv_nsec = shown % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec shown;
    (void) zone;
    clock_gettime(CLOCK_REALTIME, &shown);
    now->tv_sec = shown.tv_sec;
    now->tv_usec = shown.tv_nsec / 1000;
    return 0;
}
