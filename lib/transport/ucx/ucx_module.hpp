#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/module.hpp"
#include "transport/network.hpp"

namespace terrace::detail {

/// Values for UCX's own variables, by name without UCX_. Read when a network connects its first team.
using ucx_settings = std::vector<std::pair<std::string, std::string>>;

/// The table of the module for UCX, which it shows as `terrace_ucx_module`.
struct ucx_module {
    module_head head;
    const char* (*library_version)();  ///< of the UCX that runs
    std::shared_ptr<network> (*make)(std::shared_ptr<const ucx_settings> settings);
};

}  // namespace terrace::detail
