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
    std::shared_ptr<const part> node =
        {};  ///< what every node consists of; null where the file does not say, or they differ
    std::vector<std::string> notes = {};     ///< what a person should know who reads the file
    std::vector<std::string> warnings = {};  ///< what the file leaves out and a plan must know
    /// Where nodes differ: the types that the file declares, and by node which it is of.
    struct node_type {
        std::string name;
        std::shared_ptr<const part> node;  ///< null where the file does not say
    };
    std::vector<node_type> types = {};
    std::vector<int> type_of_node = {};
};

/// The part that one rank runs on, where a node's parts are known.
enum class rank_unit { gpus, cores, numa, packages };

std::string_view to_string(rank_unit u) noexcept;
std::optional<rank_unit> parse_rank_unit(std::string_view text) noexcept;
/// "gpus, cores, ...": for messages.
std::string rank_unit_names();

}  // namespace terrace::detail
