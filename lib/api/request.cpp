#include <terrace/request.hpp>

#include <exception>

namespace terrace {

request::~request() {
    try {
        wait();
    } catch (...) {
        // Who wants to know waits.
    }
}

request& request::operator=(request&& other) noexcept {
    request old(std::move(*this));
    calls_ = std::exchange(other.calls_, nullptr);
    call_ = other.call_;
    return *this;
}

bool request::test() {
    if (calls_ == nullptr) return true;
    calls_in_flight* calls = std::exchange(calls_, nullptr);
    if (calls->test(call_)) return true;
    calls_ = calls;
    return false;
}

void request::wait() {
    if (calls_ != nullptr) std::exchange(calls_, nullptr)->wait(call_);
}

void wait_all(std::span<request> requests) {
    std::exception_ptr first;
    for (request& r : requests) {
        try {
            r.wait();
        } catch (...) {
            if (!first) first = std::current_exception();
        }
    }
    if (first) std::rethrow_exception(first);
}

}  // namespace terrace
