#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include <unistd.h>

#include <fmt/format.h>

namespace terrace::detail {

/// One line on stderr that is overwritten. Silent unless `wanted` or a terminal shows it.
class progress {
public:
    explicit progress(bool speaks = true, bool wanted = false)
        : on_(speaks && (wanted || isatty(STDERR_FILENO) == 1)) {}
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;
    ~progress() { clear(); }

    /// At most ten times a second, so it may be called often; `text` makes the line.
    template <class Text>
    void show(Text text) {
        const auto now = std::chrono::steady_clock::now();
        if (!on_ || now - last_ < std::chrono::milliseconds(100)) return;
        last_ = now;
        shown_ = true;
        fmt::print(stderr, "\r\033[K{}", text());
    }

    /// At once: for steps that take long.
    void now(const std::string& text) {
        last_ = {};
        show([&] { return text; });
    }

    void clear() {
        if (shown_) fmt::print(stderr, "\r\033[K");
        shown_ = false;
    }

private:
    bool on_;
    bool shown_ = false;
    std::chrono::steady_clock::time_point last_{};
};

}  // namespace terrace::detail
