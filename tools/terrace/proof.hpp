#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan_data.hpp"
#include "schedule/group_proof.hpp"

namespace terrace::detail {

/// Reads a plan whose rules can all be run. @throws input_error
plan_data read_runnable_plan(const std::filesystem::path& file);

/// A program to prove for all ranks: one rule of the plan, at the count of one chunk.
struct claim {
    collective what = collective::allreduce;
    std::size_t rule = 0;
    std::int64_t count = 0;  ///< float32 elements of the chunk; of reduce_scatter and allgather in every block
    int root = 0;            ///< of broadcast and reduce
    std::string reason;      ///< what message it is a chunk of
};

/// What `terrace verify` proves: every rule of every collective, as the executor would run it, at messages (or blocks)
/// of 0, 1, P-1, P and 2P+3 elements and on both sides of every rule's bound, or of `count` elements alone; for the
/// first, the middle and the last rank as root. No program is there twice.
std::vector<claim> claims_of(const plan_data& plan, std::optional<std::int64_t> count = {});

/// Instructions of all ranks, about: what the proof of a whole program costs. Lays nothing out.
std::int64_t work_of(const plan_data& plan, const claim& c);

/// Nothing if the program is right, else its fault.
std::optional<std::string> prove(const plan_data& plan, const claim& c);

/// The same where a whole program is too long, by what `known` has proved of groups and adds to it.
std::optional<std::string> prove_by_groups(const plan_data& plan, const claim& c, group_proof& known);

/// "allreduce rule 2 (up to 64 KiB), 1024 elements, from ...": for messages.
std::string describe(const plan_data& plan, const claim& c);

}  // namespace terrace::detail
