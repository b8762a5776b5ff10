#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/hardware.hpp"

namespace terrace::detail {

/// What links the GPUs of a node directly, as a person says it: "nvlink:300GB/s", or "none".
struct gpu_fabric {
    std::string name;  ///< nvlink, xgmi, xelink; none
    double rate = 0;   ///< all links of one GPU, per direction [B/s]
};

/// Returns nothing if the text is none.
std::optional<gpu_fabric> parse_gpu_fabric(std::string_view text);

/// Links all GPUs by switches, or says that nothing does, in place of links whose rates are assumed. The file must not
/// have others.
void link_gpus(hardware& h, const gpu_fabric& by);

/// If nothing is known of links between the GPUs, and all are of one model that has them wherever it is built in: adds
/// these, marked as assumed. Clouds leave NVLink out of NCCL's files, and lstopo without the GPU's driver sees none.
void assume_gpu_links(hardware& h);

/// Adds what a person should know of the links between a node's GPUs.
void remark_on_gpu_links(const hardware& h, std::vector<std::string>& notes, std::vector<std::string>& warnings);

}  // namespace terrace::detail
