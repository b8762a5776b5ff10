#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/document.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// A machine whose domains are written out one by one.
struct written_out {
    hierarchy machine;           ///< its ranks are nodes if the file has node types
    std::vector<int> node_type;  ///< by node: the index of its type; empty if the file has no types
    std::vector<std::string> notes;
};

/// Reads `levels:` (without sizes), `reduction:`, `segment:` and `domains:`, the children of the whole machine. Each
/// domain is a map: `domains:` inside it, `name:`, `bandwidth:` and `latency:` of its link outwards (default: the
/// level's), `count:` of equal domains. Innermost domains are nodes of a type, `node: TYPE` or TYPE alone; with only
/// one type, `node:` may be left out. Without types they are domains of the first level, `ranks: 4` or 4 alone. Nodes
/// may have `hosts:`, one name for each node. @throws input_error
written_out read_domains(const document& map, std::span<const std::string> types);

}  // namespace terrace::detail
