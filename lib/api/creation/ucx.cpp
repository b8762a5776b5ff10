#include <terrace/ucx.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/core.hpp"
#include "api/creation/connect.hpp"
#include "api/creation/nic_interface.hpp"
#include "api/elastic/elastic_core.hpp"
#include "api/environment.hpp"
#include "base/index.hpp"
#include "plan/plan_access.hpp"
#include "transport/pmix/pmix_module.hpp"
#include "transport/ports.hpp"
#include "transport/socket_bootstrap.hpp"
#include "transport/store_bootstrap.hpp"
#include "transport/ucx/ucx_module.hpp"

namespace terrace::ucx {

using namespace detail;

namespace {

constexpr std::string_view in_directory = "file:";

template <class Module>
const Module& load(const module_kind& kind, const char* library) {
    const loaded_module m = load_module(kind, {}, sizeof(Module));
    if (m.table == nullptr) throw transport_error(library, "dlopen", 1, m.trouble);
    return *reinterpret_cast<const Module*>(m.table);
}

team meet(const store& in, std::string where, const options& o) {
    if (!o.world_ranks.empty() && o.world_ranks.size() != at(in.size))
        throw usage_error(fmt::format("options::world_ranks has {} numbers for {} ranks; pass one for each rank",
                                      o.world_ranks.size(), in.size));
    return team(std::make_shared<store_bootstrap>(in, std::move(where), o.timeout, wait_hook(), o.world_ranks), in.rank,
                in.size);
}

// Ranks that a launcher has started, once connected. They exchange values without the launcher until the process ends.
struct met_ranks {
    std::shared_ptr<socket_bootstrap> boot;
    int rank = 0, size = 0;
    int communicators = 0;  // number made so far; each has a name of its own
};

// Ranks connect by PMIx when a process makes its first communicator, and then leave PMIx. If a rank has no interface
// that leads to the other hosts, all ranks keep PMIx.
team meet_by_launcher(const options& o) {
    static auto* const met = new met_ranks;  // never destroyed, since a program's static objects may have communicators
    if (met->boot == nullptr) {
        const auto& pmix = load<pmix_module>(module_for_pmix(), "pmix");
        launched_ranks all = pmix.join(o.timeout);
        team first(all.boot, all.rank, all.size);
        const std::vector<network_interface> at =
            interfaces_between(first, value_in(process_environment(), "UCX_NET_DEVICES"));
        const std::vector<std::string> reached = first.exchange(used(at).empty() ? "" : "yes");
        if (std::find(reached.begin(), reached.end(), "") != reached.end()) return first;
        *met = {std::make_shared<socket_bootstrap>(first, at, o.ports), all.rank, all.size};
        pmix.leave();
    }
    met->boot->set_timeout(o.timeout);
    const team whole(met->boot, met->rank, met->size);
    return whole.part(whole.members(), fmt::format("communicator-{}", met->communicators++));
}

team meet(const options& o) {
    if (o.bootstrap.starts_with(in_directory)) return meet(store_of(o), o.bootstrap.substr(in_directory.size()), o);
    if (!o.bootstrap.empty() && o.bootstrap != "pmix")
        throw usage_error(fmt::format("options::bootstrap is \"{}\"; allowed: pmix, file:DIRECTORY", o.bootstrap));
    return meet_by_launcher(o);
}

// Returns true if the user's own variables let UCX use TCP. UCX warns about settings that no transport uses.
bool may_use_tcp(const std::vector<std::string>& environment) {
    const std::string_view listed = value_in(environment, "UCX_TLS"), transports = listed.empty() ? "all" : listed;
    const auto names = [&](std::string_view name) {
        return fmt::format(",{},", transports.substr(transports.starts_with('^'))).find(fmt::format(",{},", name)) !=
               std::string::npos;
    };
    return transports.starts_with('^') ? !names("tcp") && !names("all") : names("tcp") || names("all");
}

// Returns the interfaces at which UCX listens; empty if UCX chooses: with InfiniBand, unless all ranks share a host.
std::string devices_for(const planned_ranks& with, const options& o) {
    const hierarchy& machine = data_of(with.by).machine;
    const bool infiniband = std::ranges::count(machine.levels, fabric::infiniband, &level::medium) > 0;
    const std::vector<network_interface> in_use = used(with.net.interfaces);
    if (infiniband && !in_use.empty() && in_use.front().is != network_interface::kind::loopback) return "";
    const int rank = with.net.ranks.rank();
    interface_choice found = interfaces_of(machine.nics, rank, with.net.interfaces);
    if (found.names.empty())
        found.note = fmt::format(
            "no interface leads to the other hosts ({}): UCX uses what it finds; UCX_NET_DEVICES names others",
            description(with.net.interfaces));
    if (o.log && !found.note.empty()) o.log(log_level::warn, fmt::format("rank {} of the plan: {}", rank, found.note));
    return fmt::format("{}", fmt::join(found.names, ","));
}

// Adds a setting that Terrace prefers, unless the user has set UCX's own variable.
void prefer(ucx_settings& settings, const std::vector<std::string>& environment, const char* variable, const char* name,
            const std::string& value) {
    if (!value.empty() && value_in(environment, variable).empty()) settings.emplace_back(name, value);
}

ucx_settings settings_for(const planned_ranks& with, const options& o) {
    ucx_settings settings;
    const std::vector<std::string> environment = process_environment();
    const std::string devices = value_in(environment, "UCX_NET_DEVICES").empty() ? devices_for(with, o) : "";
    prefer(settings, environment, "UCX_NET_DEVICES", "NET_DEVICES", devices);
    // With IP interfaces, UCX would open other transports in vain, which takes a third of the time of creation.
    if (!devices.empty()) prefer(settings, environment, "UCX_TLS", "TLS", "tcp,self");
    if (!may_use_tcp(environment)) return settings;
    prefer(settings, environment, "UCX_TCP_RX_SEG_SIZE", "RX_SEG_SIZE", "256k");
    prefer(settings, environment, "UCX_TCP_TX_SEG_SIZE", "TX_SEG_SIZE", "256k");
    // A rank that connects to an unreachable node must still detect failures, and exchange them with other ranks.
    prefer(settings, environment, "UCX_TCP_CONN_NB", "CONN_NB", "y");
    if (o.ports.first > 0) prefer(settings, environment, "UCX_TCP_PORT_RANGE", "PORT_RANGE", text_of(o.ports));
    return settings;
}

communicator create_by(team all, const options& o, const plan* p, kept_plans* kept = nullptr) {
    const auto settings = std::make_shared<ucx_settings>();
    std::shared_ptr<network> net =
        or_tell_others(all, "no UCX", [&] { return load<ucx_module>(module_for_ucx(), "ucx").make(settings); });
    planned_ranks with = connect({std::move(net), memory_of_processes(o), std::move(all)}, p, o, {}, kept);
    *settings = settings_for(with, o);
    return make_communicator(std::move(with), o);
}

constexpr const char* callers_store = "the store";

}  // namespace

communicator create(const plan& p, const options& o) { return create_by(meet(o), o, &p); }
communicator create(const options& o) { return create_by(meet(o), o, nullptr); }
communicator create(const store& in, const plan& p, const options& o) {
    return create_by(meet(in, callers_store, o), o, &p);
}
communicator create(const store& in, const options& o) { return create_by(meet(in, callers_store, o), o, nullptr); }

}  // namespace terrace::ucx

namespace terrace::detail {

store store_of(const options& o) {
    if (!o.bootstrap.starts_with(ucx::in_directory))
        throw usage_error(
            fmt::format("options::bootstrap is \"{}\": members of an elastic job meet in a directory (file:DIRECTORY), "
                        "or in a store of the caller's",
                        o.bootstrap));
    if (o.rank < 0 || o.size < 1)
        throw usage_error(
            "options::rank and options::size are not set: ranks that meet in a directory are numbered by whoever "
            "starts them (TERRACE_RANK and TERRACE_SIZE)");
    return file_store(o.bootstrap.substr(ucx::in_directory.size()), o.rank, o.size);
}

communicator create_generation(const store& in, std::chrono::duration<double> timeout,
                               const std::function<void()>& look, const options& o, kept_plans& kept) {
    const auto hook = std::make_shared<const wait_hook>(look);
    const auto boot = std::make_shared<store_bootstrap>(in, ucx::callers_store, timeout, *hook);
    team all(boot, in.rank, in.size);
    all.while_waiting(hook);
    communicator made = ucx::create_by(std::move(all), o, nullptr, &kept);
    boot->set_timeout(o.timeout);
    return made;
}

}  // namespace terrace::detail
