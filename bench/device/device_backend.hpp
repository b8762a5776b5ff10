#pragma once

#include <memory>

#include "bench/measure/backend.hpp"

namespace terrace::detail::bench {

/// Makes a back end that runs the plan over NCCL, or through host memory if the setting asks for staging. Collective.
std::unique_ptr<backend> make_planned_on_device(const setting& s, plan p);

/// Makes the back end of NCCL's own collectives, with a blocking communicator of all ranks, as in programs. Collective.
/// @throws usage_error on every rank if NCCL has no such type or operation; transport_error
std::unique_ptr<backend> make_nccl_backend(const setting& s);

}  // namespace terrace::detail::bench
