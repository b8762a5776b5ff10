#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace terrace::detail::test {

/// Interprets an execution plan of MSCCL++ with a thread for each thread block, on exact data and with random pauses.
/// Shares no code with Terrace's reader of such plans.
/// @param in_place input and output are one buffer
/// @returns "" if every element is right, else the first error
std::string run_on_threads(const nlohmann::json& plan, bool in_place, std::uint64_t seed);

}  // namespace terrace::detail::test
