#include "transport/ucx/ucx_network.hpp"

#include <utility>

#include <terrace/error.hpp>

#include "base/wire.hpp"
#include "transport/ucx/ucx_messages.hpp"

namespace terrace::detail {

namespace {

// What ucx_messages relies on. A flush of a worker by its endpoints would wait until peers answer, which may be
// computing; without, it ends when all bytes have left.
const std::pair<const char*, const char*> needed{"FLUSH_WORKER_EPS", "n"};

ucx_context open_context(ucx_settings settings) {
    ucp_config_t* config = nullptr;
    check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    settings.emplace_back(needed);
    for (const auto& [name, value] : settings)
        if (const ucs_status_t bad = ucp_config_modify(config, name.c_str(), value.c_str()); bad != UCS_OK) {
            ucp_config_release(config);
            check(bad, "ucp_config_modify");
        }
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = UCP_FEATURE_TAG;
    params.mt_workers_shared = 1;  // communicators may be of different threads
    ucp_context_h context = nullptr;
    const ucs_status_t status = ucp_init(&params, config, &context);
    ucp_config_release(config);
    check(status, "ucp_init");
    return {context, ucp_cleanup};
}

}  // namespace

void check(ucs_status_t status, const char* call) {
    if (status != UCS_OK) throw transport_error("ucx", call, status, ucs_status_string(status));
}

ucx_network::ucx_network(std::shared_ptr<const ucx_settings> settings)
    : network({.name = "ucx", .segment = ucx_segment, .takes_shorter = true, .by_node_memory = true}),
      settings_(std::move(settings)) {}

// A rank that cannot open its worker tells the others so by an empty address.
std::unique_ptr<messages> ucx_network::connect(team& ranks, int slots) {
    std::unique_ptr<ucx_messages> made;
    try {
        if (!context_) context_ = open_context(*settings_);
        made = std::make_unique<ucx_messages>(traits(), context_, ranks, slots);
    } catch (const transport_error&) {
        ranks.exchange("");
        throw;
    }
    made->introduce(ranks);
    return made;
}

}  // namespace terrace::detail
