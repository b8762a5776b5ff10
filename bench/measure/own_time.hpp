#pragma once

#include <sys/resource.h>

namespace terrace::detail::bench {

/// Returns the processor time of all threads of this process so far [s].
inline double own_processor_seconds() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace terrace::detail::bench
