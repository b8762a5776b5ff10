#pragma once

#include <memory>

#include "bench/measure/backend.hpp"

namespace terrace::detail::bench {

/// The plan over NCCL, or, where the setting says so, through memory of the host. Collective.
std::unique_ptr<backend> make_planned_on_device(const setting& s, plan p);

/// NCCL by itself, as the library has it: a blocking communicator of all ranks, as programs make it. Collective.
/// @throws usage_error, on every rank, if it has no such type or operation; transport_error
std::unique_ptr<backend> make_nccl_backend(const setting& s);

}  // namespace terrace::detail::bench
