#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <terrace/gradients.hpp>
#include <terrace/loopback.hpp>

#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

inline void on_ranks(int ranks, const std::function<void(communicator&)>& body) {
    options o;
    o.timeout = std::chrono::seconds(60);
    loopback::run(plan_of_all_collectives(machines_of_size(ranks).back()), body, o);
}

/// A float32 parameter whose gradient lives in its bucket.
inline gradient_parameter floats(std::string name, std::int64_t count) {
    return {std::move(name), count, element_type::float32, nullptr};
}

inline gradient_options caps(std::int64_t bytes, std::int64_t first) {
    gradient_options o;
    o.bucket_bytes = bytes;
    o.first_bucket_bytes = first;
    return o;
}

/// Returns the message of the usage_error that an action throws; empty if it does not.
inline std::string objection(const std::function<void()>& action) {
    try {
        action();
    } catch (const usage_error& e) {
        return e.what();
    }
    return {};
}

}  // namespace terrace::detail::test
