/* A shared file system that answers late, and now and then with ESTALE: calls below SHARED_LATE_FOLDER alone.

   Each open, rename and fsync takes up to SHARED_LATE_MS. As on NFS, a file that was replaced or removed since it was
   opened is gone: reads of it end with ESTALE. So do SHARED_LATE_STALE of a thousand opens for reading. Built and
   preloaded by tests/cluster/test_shared_late.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define MOST 4096
static char *ours[MOST];
static __thread unsigned seed;

static int draw(int below) {
    if (seed == 0) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        seed = (unsigned)now.tv_nsec ^ ((unsigned)getpid() << 12) ^ 1u;
    }
    return below > 0 ? rand_r(&seed) % below : 0;
}

static int setting(const char *name) {
    const char *value = getenv(name);
    return value ? atoi(value) : 0;
}

static int is_shared(const char *path) {
    const char *folder = getenv("SHARED_LATE_FOLDER");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static void wait_a_little(void) { usleep((useconds_t)draw(1000 * setting("SHARED_LATE_MS"))); }

static int is_stale(void) {
    int is = draw(1000) < setting("SHARED_LATE_STALE");
    if (is) errno = ESTALE;
    return is;
}

static int opened(const char *path, int flags, int fd) {
    if (fd >= 0 && fd < MOST && is_shared(path) && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_DIRECTORY)) {
        free(ours[fd]);
        ours[fd] = strdup(path);
    }
    return fd;
}

static int is_gone(int fd) {
    struct stat now, then;
    int kept = errno;
    int is = fstat(fd, &then) == 0 && (stat(ours[fd], &now) != 0 || now.st_ino != then.st_ino);
    errno = is ? ESTALE : kept;
    return is;
}

#define OPENS(name)                                                                    \
    int name(const char *path, int flags, ...) {                                       \
        static int (*real)(const char *, int, ...);                                    \
        if (!real) real = dlsym(RTLD_NEXT, #name);                                     \
        va_list more;                                                                  \
        va_start(more, flags);                                                         \
        mode_t mode = va_arg(more, mode_t);                                            \
        va_end(more);                                                                  \
        if (is_shared(path)) {                                                         \
            wait_a_little();                                                           \
            if ((flags & O_ACCMODE) == O_RDONLY && is_stale()) return -1;              \
        }                                                                              \
        return opened(path, flags, real(path, flags, mode));                           \
    }
OPENS(open)
OPENS(open64)

ssize_t read(int fd, void *data, size_t size) {
    static ssize_t (*real)(int, void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "read");
    if (fd >= 0 && fd < MOST && ours[fd] && is_gone(fd)) return -1;
    return real(fd, data, size);
}

int close(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "close");
    if (fd >= 0 && fd < MOST) {
        free(ours[fd]);
        ours[fd] = NULL;
    }
    return real(fd);
}

int rename(const char *from, const char *to) {
    static int (*real)(const char *, const char *);
    if (!real) real = dlsym(RTLD_NEXT, "rename");
    if (is_shared(to)) wait_a_little();
    int result = real(from, to);
    if (is_shared(to)) wait_a_little();
    return result;
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    if (getenv("SHARED_LATE_FOLDER")) wait_a_little();
    return real(fd);
}
