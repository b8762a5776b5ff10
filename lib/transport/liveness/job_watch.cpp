#include "transport/liveness/job_watch.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/hosts.hpp"
#include "base/index.hpp"
#include "transport/liveness/lifelines.hpp"
#include "transport/liveness/process_watch.hpp"

namespace terrace::detail {

namespace {

// Part of the failure timeout for which a failure must last before it is evidence. Ranks use the rest to agree.
constexpr double time_to_prove = 0.6;

struct self {
    std::array<char, 65> host{};  // the maximum on Linux, with the final 0
    std::uint64_t pid_namespace = 0, started = 0;
    std::int64_t pid = 0;
    std::uint32_t address = 0;
    std::array<char, 16> interface {};  // IFNAMSIZ
};

std::string text_of(const self& s) {
    return s.address == 0 ? "no interface" : fmt::format("{} ({})", address_text(s.address), s.interface.data());
}

self this_process(const network_interface& on) {
    self s;
    s.address = on.address;
    on.name.copy(s.interface.data(), s.interface.size() - 1);
    host_name().copy(s.host.data(), s.host.size() - 1);
    struct stat space {};
    if (::stat("/proc/self/ns/pid", &space) == 0) s.pid_namespace = space.st_ino;
    s.pid = ::getpid();
    if (const std::optional<process_state> now = state_of(::getpid())) s.started = now->started;
    return s;
}

using shutdown_flag = process_watch::shutdown_flag;

shutdown_flag* flag_of(const std::optional<shared_region>& flags, std::size_t position) noexcept {
    return flags ? reinterpret_cast<shutdown_flag*>(flags->parts[position]) : nullptr;
}

process_watch watch_node(const team& ranks, const std::vector<self>& all, const std::vector<int>& node,
                         const std::optional<shared_region>& flags, std::chrono::duration<double> stopped_for) {
    std::vector<process_id> found;
    std::vector<const shutdown_flag*> others;
    const self& me = all[at(ranks.rank())];
    for (std::size_t i = 0; i < node.size(); ++i) {
        const self& other = all[at(node[i])];
        if (me.pid_namespace == 0 || other.pid == me.pid) continue;
        found.push_back({ranks.members()[at(node[i])], static_cast<pid_t>(other.pid), other.started});
        others.push_back(flag_of(flags, i));
    }
    return {std::move(found), stopped_for, std::move(others)};
}

class job_watch final : public liveness {
public:
    job_watch(const team& ranks, std::vector<self> all, process_watch node, std::unique_ptr<lifelines> lines,
              std::optional<shared_region> flags, shutdown_flag* own)
        : members_(ranks.members()),
          all_(std::move(all)),
          me_(all_[at(ranks.rank())]),
          flags_(std::move(flags)),
          own_(own),
          node_(std::move(node)),
          lines_(std::move(lines)) {}
    ~job_watch() override {
        if (own_ != nullptr) own_->store(1, std::memory_order_release);
    }

    bool look(std::vector<sighting>& found) noexcept override {
        const std::lock_guard lock(watch_lock_);
        const auto now = std::chrono::steady_clock::now();
        const bool node_doubts = node_.look(now, found);
        return (lines_ && lines_->look(now, found)) || node_doubts;
    }
    int lines(int rank) const noexcept override { return lines_ ? lines_->of(rank) : 0; }
    std::string host(int rank) const override { return of(rank).host.data(); }
    std::string way(int rank) const override {
        return fmt::format("from {} to {}; UCX_NET_DEVICES, and Open MPI's btl_tcp_if_include, choose other interfaces",
                           text_of(me_), text_of(of(rank)));
    }
    std::vector<int> unreached() const override { return lines_ ? lines_->missing() : std::vector<int>{}; }

private:
    const self& of(int rank) const { return all_[at(position_of(rank, members_))]; }

    const std::vector<int> members_;  // ranks of the bootstrap
    const std::vector<self> all_;     // by position in members_
    const self& me_;
    const std::optional<shared_region> flags_;  // shutdown flags of the ranks of this node
    shutdown_flag* const own_;
    std::mutex watch_lock_;  // guards all below
    process_watch node_;
    const std::unique_ptr<lifelines> lines_;
};

}  // namespace

std::shared_ptr<liveness> watch_job(connection& by, std::chrono::duration<double> failure_timeout, port_range ports) {
    team& ranks = by.ranks;
    const std::vector<int> leaders = ranks.nodes();
    // Any interface in use leads to the other hosts.
    std::vector<network_interface> usable = used(by.interfaces);
    std::erase_if(usable, [](const network_interface& i) { return i.address == 0; });
    const network_interface on = usable.empty() ? network_interface{} : usable.front();
    const self process = this_process(on);
    std::vector<self> all(at(ranks.size()));
    ranks.gather_all(&process, all.data(), sizeof process);
    // Process ids are valid only inside one PID namespace, such as a container's.
    const auto space_of = [&](int r) { return std::pair(leaders[at(r)], all[at(r)].pid_namespace); };
    std::map<std::pair<int, std::uint64_t>, std::vector<int>> by_space;
    for (int r = 0; r < ranks.size(); ++r) by_space[space_of(r)].push_back(r);
    std::vector<std::vector<int>> nodes;
    for (auto& [space, members] : by_space) nodes.push_back(members);
    const auto to_prove = failure_timeout * time_to_prove;
    const std::vector<int>& node = by_space[space_of(ranks.rank())];
    constexpr std::size_t line = 64;
    std::optional<shared_region> flags = by.memory ? by.memory->share(ranks, node, line) : std::nullopt;
    process_watch neighbours = watch_node(ranks, all, node, flags, to_prove);
    std::unique_ptr<lifelines> lines;
    if (nodes.size() > 1) lines = std::make_unique<lifelines>(ranks, nodes, to_prove, on, ports);
    shutdown_flag* mine = flag_of(flags, at(position_of(ranks.rank(), node)));
    return std::make_shared<job_watch>(ranks, std::move(all), std::move(neighbours), std::move(lines), std::move(flags),
                                       mine);
}

}  // namespace terrace::detail
