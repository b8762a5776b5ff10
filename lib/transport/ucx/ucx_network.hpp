#pragma once

#include <memory>

#include <ucp/api/ucp.h>

#include "transport/network.hpp"
#include "transport/ucx/ucx_module.hpp"

namespace terrace::detail {

/// UCX's context: which devices there are, and how they are used.
using ucx_context = std::shared_ptr<ucp_context>;

/// Ranks that UCX connects. Each team has a worker of its own.
class ucx_network final : public network {
public:
    explicit ucx_network(std::shared_ptr<const ucx_settings> settings);

    std::unique_ptr<messages> connect(team& ranks, int slots) override;

private:
    const std::shared_ptr<const ucx_settings> settings_;
    ucx_context context_;
};

/// For set-up. @throws transport_error
void check(ucs_status_t status, const char* call);

}  // namespace terrace::detail
