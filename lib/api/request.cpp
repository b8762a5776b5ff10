#include <terrace/request.hpp>

#include <exception>
#include <utility>

#include <terrace/error.hpp>

#include "api/calls_in_flight.hpp"

namespace terrace {

using namespace detail;

namespace {

calls_in_flight& existing(const std::shared_ptr<calls_in_flight*>& calls) {
    if (*calls != nullptr) return **calls;
    throw usage_error(destroyed_too_soon);
}

}  // namespace

request::request(std::shared_ptr<calls_in_flight*> calls, std::uint64_t call) noexcept
    : calls_(std::move(calls)), call_(call) {}

request::~request() {
    try {
        wait();
    } catch (...) {
        // wait() reports errors.
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
    if (existing(calls).test(call_)) return true;
    calls_ = std::move(calls);
    return false;
}

void request::wait() {
    if (calls_ != nullptr) existing(std::exchange(calls_, nullptr)).wait(call_);
}

void request::then(std::function<void(std::exception_ptr)> done) {
    if (calls_ != nullptr) existing(std::exchange(calls_, nullptr)).then(call_, std::move(done));
    else done(nullptr);
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
