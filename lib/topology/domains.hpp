#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/document.hpp"
#include "machine/hierarchy.hpp"

namespace terrace::detail {

/// A machine whose domains are written out one by one.
struct written_out {
    hierarchy machine;           ///< its ranks are nodes where there are node types
    std::vector<int> node_type;  ///< by node, where there are any
    std::vector<std::string> notes;
};

/// Reads `levels:` (without sizes), `reduction:` and `domains:`, the domains of the outermost level's one domain. Each
/// is a map: `domains:` inside it, `name:`, `bandwidth:` and `latency:` of its own link outwards (else the level's),
/// `count:` of domains like it. The innermost ones are nodes of one of the types (`node: NAME`, which may be left out
/// where there is one; the name alone will do), or, where there are no types, domains of the first level (`ranks: 4`,
/// or just 4). Nodes have `hosts:`, as many as there are such nodes. @throws input_error
written_out read_domains(const document& map, std::span<const std::string> types);

}  // namespace terrace::detail
