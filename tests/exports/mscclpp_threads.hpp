#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace terrace::detail::test {

/// Runs an execution plan of MSCCL++ as it stands, a thread for each thread block, on exact data and with random
/// pauses. Shares nothing with the reader of such plans.
/// @param in_place input and output are one buffer, as the plan may ask for itself
/// @returns "" if every element is right, else what is wrong
std::string run_on_threads(const nlohmann::json& plan, bool in_place, std::uint64_t seed);

}  // namespace terrace::detail::test
