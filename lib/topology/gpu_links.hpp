#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/hardware.hpp"

namespace terrace::detail {

/// Direct links between the GPUs of a node, as a user gives them: "nvlink:300GB/s", or "none".
struct gpu_fabric {
    std::string name;  ///< nvlink, xgmi, xelink; none
    double rate = 0;   ///< all links of one GPU, per direction [B/s]
};

/// Returns the fabric that a text describes; nothing if the text is not valid.
std::optional<gpu_fabric> parse_gpu_fabric(std::string_view text);

/// Links all GPUs by switches, or leaves them without links ("none"). Links with assumed rates are replaced; the file
/// must not have others.
void link_gpus(hardware& h, const gpu_fabric& by);

/// Adds, marked as assumed, the links that all boards of the GPUs' model have, if the links are unknown. Clouds leave
/// NVLink out of NCCL's files, and lstopo without the GPU's driver does not see it.
void assume_gpu_links(hardware& h);

/// Adds notes and warnings for the user about the links between a node's GPUs.
void remark_on_gpu_links(const hardware& h, std::vector<std::string>& notes, std::vector<std::string>& warnings);

}  // namespace terrace::detail
