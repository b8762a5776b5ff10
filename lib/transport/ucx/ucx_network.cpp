// The module for the transport over UCX.

#include "transport/ucx/ucx_module.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include <terrace/error.hpp>
#include <terrace/version.hpp>

#include "base/index.hpp"
#include "base/wire.hpp"
#include "transport/interfaces.hpp"
#include "transport/ports.hpp"
#include "transport/ucx/ucx_messages.hpp"

namespace terrace::detail {

namespace {

ucx_context open_context(ucx_settings settings) {
    ucp_config_t* config = nullptr;
    check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    // ucx_messages requires this setting. With endpoints, a flush of a worker would wait until peers answer, which may
    // be computing. Without them, the flush ends when all bytes have left.
    settings.emplace_back("FLUSH_WORKER_EPS", "n");
    for (const auto& [name, value] : settings)
        if (const ucs_status_t bad = ucp_config_modify(config, name.c_str(), value.c_str()); bad != UCS_OK) {
            ucp_config_release(config);
            check(bad, "ucp_config_modify");
        }
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = UCP_FEATURE_TAG;
    params.mt_workers_shared = 1;  // communicators may belong to different threads
    ucp_context_h context = nullptr;
    const ucs_status_t status = ucp_init(&params, config, &context);
    ucp_config_release(config);
    check(status, "ucp_init");
    return {context, ucp_cleanup};
}

std::string_view value_of(const ucx_settings& settings, std::string_view name) {
    const auto found = std::find_if(settings.begin(), settings.end(), [&](const auto& s) { return s.first == name; });
    return found == settings.end() ? std::string_view() : std::string_view(found->second);
}

// Returns an error if this rank's node has too few free ports for its ranks; empty if it has enough.
std::string lack_of_ports(const ucx_settings& settings, port_range ports, int wanted) {
    const std::string devices = fmt::format(",{},", value_of(settings, "NET_DEVICES"));
    for (const network_interface& i : own_interfaces()) {
        if (i.address == 0 || devices.find(fmt::format(",{},", i.name)) == devices.npos) continue;
        if (const int free = free_ports(i.address, ports, wanted); free < wanted)
            return fmt::format(
                "{} of its ports {} (TERRACE_PORTS) are free at {} ({}), and each of {} ranks listens at one", free,
                text_of(ports), address_text(i.address), i.name, wanted);
    }
    return "";
}

// Fails on all ranks if a node has too few ports: UCX tries the ports of a range until one is free, without end.
void expect_ports(team& ranks, const ucx_settings& settings) {
    port_range ports;
    const std::string range(value_of(settings, "PORT_RANGE"));
    if (std::sscanf(range.c_str(), "%d-%d", &ports.first, &ports.last) != 2) return;
    const std::vector<int> nodes = ranks.nodes();
    const auto here = std::count(nodes.begin(), nodes.end(), nodes[at(ranks.rank())]);
    const std::vector<std::string> lacks = ranks.exchange(lack_of_ports(settings, ports, static_cast<int>(here)));
    for (std::size_t r = 0; r < lacks.size(); ++r)
        if (!lacks[r].empty())
            throw transport_error("ucx", "bind", EADDRINUSE, fmt::format("rank {}: {}", ranks.members()[r], lacks[r]));
}

// Ranks that UCX connects. Each team has its own worker.
class ucx_network final : public network {
public:
    explicit ucx_network(std::shared_ptr<const ucx_settings> settings)
        : network({.name = "ucx", .segment = ucx_segment, .takes_shorter = true, .by_node_memory = true}),
          settings_(std::move(settings)) {}

    // A rank that cannot open its worker reports this to the others by an empty address.
    std::unique_ptr<messages> connect(team& ranks, int slots) override {
        expect_ports(ranks, *settings_);
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

private:
    const std::shared_ptr<const ucx_settings> settings_;
    ucx_context context_;
};

}  // namespace

void check(ucs_status_t status, const char* call) {
    if (status != UCS_OK) throw transport_error("ucx", call, status, ucs_status_string(status));
}

extern "C" __attribute__((visibility("default"))) const ucx_module terrace_ucx_module{
    .head = {.version = header_version, .bytes = sizeof(ucx_module)},
    .library_version = ucp_get_version_string,
    .make = [](std::shared_ptr<const ucx_settings> settings) -> std::shared_ptr<network> {
        return std::make_shared<ucx_network>(std::move(settings));
    },
};

}  // namespace terrace::detail
