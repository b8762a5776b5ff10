#pragma once

#include <functional>
#include <string_view>

namespace terrace {

enum class log_level { warn, info, debug };

/// How a communicator behaves. The defaults suit production.
struct options {
    /// Receives one line without a newline. Null: silent. Called from the thread that uses the communicator.
    std::function<void(log_level, std::string_view)> log;

    /// Where ranks must be: the plan's nodes are the machine's nodes, or (for tests, and to try a plan on one machine)
    /// wherever they happen to run.
    enum class placement { by_node, anywhere };
    placement place = placement::by_node;
};

}  // namespace terrace
