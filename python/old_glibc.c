// Functions and data that libstdc++ 12 uses from a glibc newer than 2.28. tools/wheel links them in.

#include <pthread.h>
#include <stdint.h>
#include <sys/random.h>
#include <time.h>

#pragma GCC visibility push(hidden)

/// False: there may be several threads. In glibc since 2.32.
char __libc_single_threaded = 0;

/// Returns random bits. In glibc since 2.36. std::random_device calls it.
uint32_t arc4random(void) {
    uint32_t made = 0;
    if (getentropy(&made, sizeof made) != 0) __builtin_trap();
    return made;
}

/// Waits until a time of any clock. In glibc since 2.30. std::condition_variable calls it, then checks its clock.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
    const int64_t second = 1000000000;
    struct timespec there, here;
    clock_gettime(clock, &there);
    clock_gettime(CLOCK_REALTIME, &here);
    const int64_t left = (until->tv_sec - there.tv_sec) * second + until->tv_nsec - there.tv_nsec;
    const int64_t end = here.tv_sec * second + here.tv_nsec + (left > 0 ? left : 0);
    const struct timespec in_real_time = {.tv_sec = end / second, .tv_nsec = end % second};
    return pthread_cond_timedwait(condition, mutex, &in_real_time);
}

#pragma GCC visibility pop
