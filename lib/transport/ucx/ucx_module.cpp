// The module: the transport over UCX.

#include "transport/ucx/ucx_module.hpp"

#include <ucp/api/ucp.h>

#include <terrace/version.hpp>

#include "transport/ucx/ucx_network.hpp"

using namespace terrace;
using namespace terrace::detail;

extern "C" __attribute__((visibility("default"))) const ucx_module terrace_ucx_module{
    .head = {.version = header_version, .bytes = sizeof(ucx_module)},
    .library_version = ucp_get_version_string,
    .make = [](std::shared_ptr<const ucx_settings> settings) -> std::shared_ptr<network> {
        return std::make_shared<ucx_network>(std::move(settings));
    },
};
