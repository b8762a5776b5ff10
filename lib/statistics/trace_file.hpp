#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <terrace/types.hpp>

#include "base/collective.hpp"

namespace terrace::detail {

/// A rank of a communicator, as traces and dumps name it.
struct traced_rank {
    int rank = 0;          ///< rank in the communicator
    int process = 0;       ///< rank in the first communicator of the creating thread
    int communicator = 1;  ///< number among the communicators of this process, from 1
};

/// A call as a trace shows it.
struct traced_call {
    std::uint64_t number = 0;  ///< number of the call on its communicator, from 1
    collective what = collective::allreduce;
    element_type type = element_type::float32;
    std::int64_t bytes = 0;  ///< of the vector, or of all blocks together
};

/// A chunk of a call in one stage.
struct traced_chunk {
    std::uint64_t call = 0;
    int stage = 0, lane = 0;
    bool down = false;
    std::int64_t chunk = 0;
    double begin = 0, end = 0;  ///< since 1970 [us]
};

/// An activity of the program.
struct traced_span {
    std::string track{};  ///< row of the trace; spans of a row do not overlap
    std::string name{};
    double begin = 0, end = 0;  ///< since 1970 [us]
};

/// Empties a trace file, unless this process has done so before. Called by one rank, before any rank appends to it.
/// @throws input_error if the file cannot be written, or is not a regular file
void begin_trace(const std::filesystem::path& file);

/// Appends to a Chrome trace (chrome://tracing, ui.perfetto.dev): a process for each rank, and a slice for each chunk
/// in each stage. A track holds one lane of one stage in one direction, of one communicator, for calls that are not in
/// flight together. So slices of a track never overlap. The file is valid JSON after each rank. Several processes may
/// append to one file at the same time.
/// @param plan name of the plan   @param calls ascending   @param chunks by call, stage, direction, lane and chunk
/// @throws input_error if the file cannot be written
void append_trace(const std::filesystem::path& file, const traced_rank& of, std::string_view plan,
                  const std::vector<traced_call>& calls, const std::vector<traced_chunk>& chunks,
                  const std::vector<traced_span>& spans);

}  // namespace terrace::detail
