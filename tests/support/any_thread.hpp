#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <terrace/options.hpp>

namespace terrace::detail::test {

/// Returns options of a communicator that any thread may use.
inline options from_any_thread(bool progress_thread = false) {
    options o;
    o.threads = options::threading::any;
    o.progress_thread = progress_thread;
    return o;
}

/// Runs `body(t)` in several threads. Returns the text of the first exception; "" if there is none.
inline std::string in_threads(int threads, const std::function<void(int)>& body) {
    std::mutex guard;
    std::string thrown;
    std::vector<std::jthread> all;
    for (int t = 0; t < threads; ++t)
        all.emplace_back([&, t] {
            try {
                body(t);
            } catch (const std::exception& e) {
                const std::lock_guard lock(guard);
                if (thrown.empty()) thrown = e.what();
            }
        });
    all.clear();
    return thrown;
}

/// Runs `action` in another thread. Returns the text of its exception; "" if there is none.
inline std::string what_is_thrown(const std::function<void()>& action) {
    return in_threads(1, [&](int) { action(); });
}

/// Returns how many elements are not as expected.
template <class T>
std::int64_t wrong_in(const std::vector<T>& data, T expected) {
    return std::ssize(data) - std::count(data.begin(), data.end(), expected);
}

}  // namespace terrace::detail::test
