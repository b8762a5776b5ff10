#include <terrace/request.hpp>

#include <exception>
#include <utility>

#include <terrace/error.hpp>

#include "calls/calls_in_flight.hpp"
#include "calls/failure_state.hpp"

namespace terrace {

using namespace detail;

namespace {

calls_in_flight& existing(const call_source& source, std::uint64_t life) {
    calls_in_flight* const calls = source.calls.load(std::memory_order_acquire);
    if (calls != nullptr && source.life.load(std::memory_order_relaxed) == life) return *calls;
    throw usage_error(destroyed_too_soon);
}

}  // namespace

void request::drop() noexcept {
    error_in([this] { wait(); });  // discards the error; callers that need it call wait()
}

request& request::operator=(request&& other) noexcept {
    request old(std::move(*this));
    source_ = std::exchange(other.source_, nullptr);
    life_ = other.life_;
    call_ = other.call_;
    return *this;
}

bool request::test() {
    if (source_ == nullptr) return true;
    call_source* const source = std::exchange(source_, nullptr);  // the request is complete if test() throws
    if (existing(*source, life_).test(call_)) return true;
    source_ = source;
    return false;
}

void request::wait() {
    if (source_ != nullptr) existing(*std::exchange(source_, nullptr), life_).wait(call_);
}

void request::then(std::function<void(std::exception_ptr)> done) {
    if (source_ != nullptr) existing(*std::exchange(source_, nullptr), life_).then(call_, std::move(done));
    else done(nullptr);
}

void wait_all(std::span<request> requests) {
    std::exception_ptr first;
    for (request& r : requests) {
        const std::exception_ptr error = error_in([&] { r.wait(); });
        if (!first) first = error;
    }
    if (first) std::rethrow_exception(first);
}

}  // namespace terrace
