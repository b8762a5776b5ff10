#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/module.hpp"
#include "transport/network.hpp"

namespace terrace::detail {

/// Values of UCX's variables, by name without the prefix UCX_. Applied when a network connects its first team.
using ucx_settings = std::vector<std::pair<std::string, std::string>>;

/// Table of the module for UCX, exported as `terrace_ucx_module`.
struct ucx_module {
    module_head head;
    const char* (*library_version)();  ///< returns the version of the UCX that runs
    std::shared_ptr<network> (*make)(std::shared_ptr<const ucx_settings> settings);
};

}  // namespace terrace::detail
