#pragma once

#include <chrono>
#include <memory>

#include "transport/bootstrap.hpp"
#include "transport/module.hpp"

namespace terrace::detail {

/// The ranks of a job, as its launcher has started them.
struct launched_ranks {
    std::shared_ptr<bootstrap> boot;
    int rank = 0, size = 0;
};

/// The table of the module for PMIx, exported as `terrace_pmix_module`.
struct pmix_module {
    module_head head;
    const char* (*library_version)();
    /// Connects to the launcher. @param timeout longest wait in any function [s]; 0: no limit   @throws transport_error
    launched_ranks (*join)(std::chrono::duration<double> timeout);
    /// Ends the connection to the launcher, and with it the bootstraps of join(). A launcher may end the job when a
    /// connected process dies, as Slurm's does.
    void (*leave)() noexcept;
};

}  // namespace terrace::detail
