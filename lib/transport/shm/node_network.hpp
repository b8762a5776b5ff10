#pragma once

#include <memory>

#include "transport/network.hpp"

namespace terrace::detail {

/// Returns a network whose connections carry messages between ranks of a node through `memory`, and others through
/// `outside`. If memory cannot be shared, all messages go through `outside`.
std::shared_ptr<network> with_node_messages(std::shared_ptr<network> outside, std::shared_ptr<region_source> memory);

}  // namespace terrace::detail
