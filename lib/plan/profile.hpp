#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "plan/plan_data.hpp"

namespace terrace::detail {

/// What calls of one collective and size took in a run.
struct profiled_call {
    collective what = collective::allreduce;
    std::int64_t bytes = 0;  ///< of the vector, or of all blocks together, above 0
    std::int64_t calls = 0;  ///< at least 1
    double time = 0;         ///< lower quartile, above 0 [s]

    friend bool operator==(const profiled_call&, const profiled_call&) = default;
};

/// What a run did with a plan: one profile file, and the plan beside it.
struct profile {
    plan_data plan;
    std::vector<profiled_call> calls;
};

/// Writes a profile file into a directory, which is made if it is missing, and the plan, unless it is there already.
/// Files appear whole or not at all, so that jobs may share a directory. Returns the profile file's name.
/// @throws input_error
std::filesystem::path write_profile(const std::filesystem::path& directory, const plan_data& plan,
                                    const std::vector<profiled_call>& calls);

/// Reads all profile files of a directory, in the order of their names. @throws input_error where there is none, or one
/// of them or its plan is wrong
std::vector<profile> read_profiles(const std::filesystem::path& directory);

}  // namespace terrace::detail
