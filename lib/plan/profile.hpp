#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// The time of calls of one collective and size in a run.
struct profiled_call {
    collective what = collective::allreduce;
    std::int64_t bytes = 0;  ///< of the vector, or of all blocks together, above 0
    std::int64_t calls = 0;  ///< at least 1
    double time = 0;         ///< lower quartile, above 0 [s]

    friend bool operator==(const profiled_call&, const profiled_call&) = default;
};

/// The profile of a run: the contents of one profile file, and the plan beside it.
struct profile {
    plan_data plan;
    std::vector<profiled_call> calls;
};

/// Writes a profile file into a directory, which is created if it is missing, and the plan, unless it is already there.
/// Files appear complete or not at all, so jobs may share a directory. Returns the name of the profile file.
/// @throws input_error
std::filesystem::path write_profile(const std::filesystem::path& directory, const plan_data& plan,
                                    const std::vector<profiled_call>& calls);

/// Reads all profile files of a directory, in the order of their names. @throws input_error if there is none, or if one
/// of them or its plan is wrong
std::vector<profile> read_profiles(const std::filesystem::path& directory);

}  // namespace terrace::detail
