#include "transport/team.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include <terrace/error.hpp>

#include "base/hash.hpp"
#include "base/hosts.hpp"
#include "base/index.hpp"

namespace terrace::detail {

namespace {

std::string listed(std::span<const int> ranks) {
    std::string text;
    for (std::size_t i = 0; i < ranks.size();) {
        std::size_t last = i;
        while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
        text += text.empty() ? "" : ", ";
        text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
        i = last + 1;
    }
    return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", text);
}

}  // namespace

team::team(std::shared_ptr<bootstrap> by, int rank, int size)
    : by_(std::move(by)), members_(numbers_below(size)), rank_(rank) {}

team::team(const team& whole, std::string name, std::span<const int> ranks)
    : by_(whole.by_),
      name_(std::move(name)),
      rank_(static_cast<int>(std::find(ranks.begin(), ranks.end(), whole.rank_) - ranks.begin())),
      look_(whole.look_) {
    for (const int r : ranks) {
        members_.push_back(whole.members_[at(r)]);
        if (!whole.node_names_.empty()) node_names_.push_back(whole.node_names_[at(r)]);
    }
}

int team::world_rank(int rank) const noexcept {
    const int member = members_[at(rank)];
    return by_->world_ranks().empty() ? member : by_->world_ranks()[at(member)];
}

std::vector<std::string> team::exchange(std::string_view own) {
    const std::shared_ptr<const wait_hook> look = look_.lock();
    return by_->exchange(members_, fmt::format("{}/{}", name_, turn_++), own, look ? *look : wait_hook());
}

void team::gather_all(const void* mine, void* all, std::size_t bytes) {
    auto* to = static_cast<char*>(all);
    for (const std::string& each : exchange({static_cast<const char*>(mine), bytes})) {
        std::memcpy(to, each.data(), bytes);
        to += bytes;
    }
}

std::optional<team> team::split(int color, int key) {
    struct choice {
        int color, key;
    };
    const choice mine{color, key};
    std::vector<choice> all(members_.size());
    const std::uint64_t turn = turn_;
    gather_all(&mine, all.data(), sizeof mine);
    if (color < 0) return {};
    std::vector<int> ranks;
    for (int r = 0; r < size(); ++r)
        if (all[at(r)].color == color) ranks.push_back(r);
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return all[at(a)].key < all[at(b)].key; });
    return team(*this, fmt::format("{}/{}:{}", name_, turn, color), ranks);
}

team team::part(std::span<const int> ranks, std::string_view name) const {
    return team(*this, fmt::format("{}/{}", name_, name), ranks);
}

std::vector<int> team::nodes() {
    std::map<std::string_view, int> lowest;
    std::vector<int> nodes;
    for (const std::string& name : node_names())
        nodes.push_back(lowest.emplace(name, static_cast<int>(nodes.size())).first->second);
    return nodes;
}

int team::place_on_node() {
    const std::vector<int> all = nodes();
    return static_cast<int>(std::count(all.begin(), all.begin() + rank_, all[at(rank_)]));
}

// ---- comparison of ranks --------------------------------------------------------------------------------------------

std::string ranks_named(std::span<const int> ranks, std::span<const int> world_ranks) {
    std::vector<int> in_world;
    if (!world_ranks.empty())
        for (const int r : ranks) in_world.push_back(world_ranks[at(r)]);
    const bool differ = !in_world.empty() && !std::ranges::equal(ranks, in_world);
    return listed(ranks) + (differ ? fmt::format(" ({} of the world)", listed(in_world)) : "");
}

std::string differences(std::span<const std::string> all) {
    std::map<std::string, std::vector<int>> ranks;
    for (std::size_t r = 0; r < all.size(); ++r) ranks[all[r]].push_back(static_cast<int>(r));
    if (ranks.size() <= 1) return {};
    std::vector<std::pair<std::string, std::vector<int>>> groups(ranks.begin(), ranks.end());
    std::ranges::stable_sort(groups, std::ranges::greater(), [](const auto& g) { return g.second.size(); });
    std::string text;
    for (const auto& [value, who] : groups)
        text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", ranks_named(who), who.size() == 1 ? "has" : "have",
                            value);
    return text;
}

// Exchanges the texts only if their hashes differ, since texts may be long and are usually equal.
void require_same(team& ranks, const std::string& own) {
    const std::uint64_t hash = hash_of(own.data(), own.size());
    std::vector<std::uint64_t> hashes(at(ranks.size()));
    ranks.gather_all(&hash, hashes.data(), sizeof hash);
    if (std::all_of(hashes.begin(), hashes.end(), [&](std::uint64_t h) { return h == hashes.front(); })) return;
    throw plan_error("ranks differ: " + differences(ranks.exchange(own)));
}

std::string this_node() {
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
    struct stat memory {};
    if (::stat("/dev/shm", &memory) != 0) memory = {};
    return fmt::format("{} {} {}", boot, memory.st_dev, host_name());
}

std::string memory_apart(std::span<const std::string> nodes) {
    struct machine {
        std::vector<int> ranks;
        std::set<std::string> memories;
    };
    std::map<std::string, machine> machines;  // by boot id of the kernel
    for (std::size_t r = 0; r < nodes.size(); ++r) {
        std::istringstream words(nodes[r]);
        std::string boot, memory, host;
        if (!(words >> boot >> memory >> host)) continue;
        machines[boot].ranks.push_back(static_cast<int>(r));
        machines[boot].memories.insert(memory);
    }
    for (const auto& [boot, m] : machines)
        if (m.memories.size() > 1)
            return fmt::format("{} run on one machine with {} different /dev/shm, as in containers; let them share it",
                               ranks_named(m.ranks), m.memories.size());
    return {};
}

}  // namespace terrace::detail
