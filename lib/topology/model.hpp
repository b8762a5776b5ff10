#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "machine/hierarchy.hpp"
#include "topology/hardware.hpp"

namespace terrace::detail {

/// A machine as the planner sees it. Immutable once read.
struct topology {
    std::string name;
    hierarchy machine;
    /// Parts of every node; null if the file does not give them, or if nodes differ.
    std::shared_ptr<const part> node = {};
    std::vector<std::string> notes = {};     ///< remarks on the file, for the user
    std::vector<std::string> warnings = {};  ///< facts that the file lacks and a plan depends on, for the user
    /// A type of nodes that the file declares, if nodes differ.
    struct node_type {
        std::string name;
        std::shared_ptr<const part> node;  ///< null if the file does not give its parts
    };
    std::vector<node_type> types = {};
    std::vector<int> type_of_node = {};  ///< by node: its index in `types`
};

/// Kind of part that one rank runs on, if a node's parts are known.
enum class rank_unit { gpus, cores, numa, packages };

std::string_view to_string(rank_unit u) noexcept;
std::optional<rank_unit> parse_rank_unit(std::string_view text) noexcept;
/// Returns "gpus, cores, ..." for messages.
std::string rank_unit_names();

}  // namespace terrace::detail
