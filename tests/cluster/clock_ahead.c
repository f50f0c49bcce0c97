/* The clock of a host that is CLOCK_AHEAD_S seconds off: the time of day alone, no other clock. Preloaded by
   machines.py. (libfaketime 0.9.10 also takes clock_nanosleep(2), with which Python sleeps, and breaks it.) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long ahead_s(void) {
    const char *value = getenv("CLOCK_AHEAD_S");
    return value ? atol(value) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += ahead_s();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*real)(struct timeval *restrict, void *restrict);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(now, zone);
    if (result == 0) now->tv_sec += ahead_s();
    return result;
}

time_t time(time_t *given) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (given) *given = now.tv_sec;
    return now.tv_sec;
}
