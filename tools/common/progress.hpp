#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include <unistd.h>

#include <fmt/format.h>

namespace terrace::detail {

/// One line on standard error that is overwritten. Silent if not `speaks`, or if neither `wanted` nor on a terminal.
class progress {
public:
    explicit progress(bool speaks = true, bool wanted = false)
        : on_(speaks && (wanted || isatty(STDERR_FILENO) == 1)) {}
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;
    ~progress() { clear(); }

    /// Shows the text that `text` returns, at most ten times a second, so frequent calls are cheap.
    template <class Text>
    void show(Text text) {
        const auto now = std::chrono::steady_clock::now();
        if (!on_ || now - last_ < std::chrono::milliseconds(100)) return;
        last_ = now;
        shown_ = true;
        fmt::print(stderr, "\r\033[K{}", text());
    }

    /// Shows a text at once, for long steps.
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
