#include <terrace/request.hpp>

#include <exception>

#include <terrace/error.hpp>

namespace terrace {

namespace {

calls_in_flight& still(const std::shared_ptr<calls_in_flight*>& calls) {
    if (*calls != nullptr) return **calls;
    throw usage_error("request: its communicator was destroyed before the call was complete; wait for it before");
}

}  // namespace

request::~request() {
    try {
        wait();
    } catch (...) {
        // Who wants to know waits.
    }
}

request& request::operator=(request&& other) noexcept {
    request old(std::move(*this));
    calls_ = std::move(other.calls_);
    call_ = other.call_;
    return *this;
}

bool request::test() {
    if (calls_ == nullptr) return true;
    std::shared_ptr<calls_in_flight*> calls = std::move(calls_);  // complete if this throws
    if (still(calls).test(call_)) return true;
    calls_ = std::move(calls);
    return false;
}

void request::wait() {
    if (calls_ != nullptr) still(std::exchange(calls_, nullptr)).wait(call_);
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
