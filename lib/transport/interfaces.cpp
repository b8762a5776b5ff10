#include "transport/interfaces.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/descriptor.hpp"
#include "base/hosts.hpp"
#include "base/text_parts.hpp"
#include "transport/packed.hpp"

namespace terrace::detail {

namespace {

namespace fs = std::filesystem;
using kind = network_interface::kind;

// ---- the rule ---------------------------------------------------------------------------------------------------

bool is_used(const network_interface& i) { return i.left_out.empty(); }

// Leaves out interfaces that a test finds worse, unless the test finds all of them worse.
template <class Test, class Reason>
void leave_out(std::vector<network_interface>& own, Test is_worse, Reason reason) {
    const auto good = std::find_if(own.begin(), own.end(), [&](const auto& i) { return is_used(i) && !is_worse(i); });
    if (good == own.end()) return;
    for (network_interface& i : own)
        if (is_used(i) && is_worse(i)) i.left_out = reason(i, *good);
}

std::vector<std::string> names_in(std::string_view list, const std::vector<network_interface>& own) {
    std::vector<std::string> found;
    for (const network_interface& i : own)
        for (const std::string_view name : split_at(',', list))
            if (name == i.name) found.push_back(i.name);
    return found;
}

// Applies the rules that need no data of other hosts.
void look_at_each(std::vector<network_interface>& own, std::string_view chosen, bool alone) {
    const std::vector<std::string> names = names_in(chosen, own);
    for (network_interface& i : own) {
        if (std::find(names.begin(), names.end(), i.name) != names.end()) continue;
        if (!names.empty()) i.left_out = "UCX_NET_DEVICES does not name it";
        else if (!i.up) i.left_out = "it is down";
        else if (i.address == 0) i.left_out = "it has no IPv4 address";
        else if (alone && i.is != kind::loopback) i.left_out = "all ranks are on this host";
        else if (!alone && i.is == kind::loopback) i.left_out = "it does not leave this host";
    }
}

bool leads_to(const network_interface& i, std::uint32_t address, const interface_inputs& by) {
    const std::uint32_t mask = i.bits == 0 ? 0 : htonl(~std::uint32_t{0} << (32 - i.bits));
    return ((i.address ^ address) & mask) == 0 || by.source(address) == i.address;
}

void compare_with_others(std::vector<network_interface>& own, const interface_inputs& by) {
    std::map<std::uint32_t, std::set<const other_host*>> owners;
    for (const other_host& o : *by.others)
        for (const std::uint32_t a : o.addresses) owners[a].insert(&o);
    for (network_interface& i : own)
        if (const auto same = owners.find(i.address); is_used(i) && same != owners.end())
            i.left_out = fmt::format("{} has {}, too", (*same->second.begin())->name, address_text(i.address));
    std::map<std::string, std::vector<std::string_view>> missed;  // hosts, by interface
    for (const network_interface& i : used(own))
        for (const other_host& o : *by.others)
            if (std::ranges::none_of(o.addresses, [&](auto a) { return owners[a].size() == 1 && leads_to(i, a, by); }))
                missed[i.name].push_back(o.name);
    for (network_interface& i : own)
        if (is_used(i) && missed[i.name].size() == by.others->size()) i.left_out = "it leads to no other host";
    leave_out(
        own, [&](const network_interface& i) { return !missed[i.name].empty(); },
        [&](const network_interface& i, const network_interface& good) {
            return fmt::format("it does not lead to {}, and {} leads to all", missed[i.name].front(), good.name);
        });
}

void leave_out_detours(std::vector<network_interface>& own) {
    leave_out(
        own, [](const network_interface& i) { return i.is == kind::tunnel || i.is == kind::inner_bridge; },
        [](const network_interface& i, const network_interface& good) {
            return fmt::format("{} goes before a {}", good.name,
                               i.is == kind::tunnel ? "tunnel" : "bridge that no hardware is below");
        });
}

// Keeps interfaces of unknown rate.
void leave_out_slower(std::vector<network_interface>& own) {
    std::int64_t most = 0;
    for (const network_interface& i : used(own)) most = std::max(most, i.rate);
    for (network_interface& i : own) {
        i.slower = is_used(i) && i.rate > 0 && i.rate < most;
        if (i.slower) i.left_out = fmt::format("it has {} Mbit/s, and another {}", i.rate, most);
    }
}

// ---- facts from the kernel --------------------------------------------------------------------------------------

fs::path facts_of(const std::string& interface) { return fs::path("/sys/class/net") / interface; }

// Returns true for hardware and for interfaces on top of hardware: a bond, a VLAN, a bridge with a hardware port.
bool is_on_hardware(const std::string& name) {
    std::error_code none;
    if (fs::exists(facts_of(name) / "device", none)) return true;
    for (fs::directory_iterator entry(facts_of(name), none), end; entry != end; entry.increment(none)) {
        const std::string below = entry->path().filename();
        if (below.starts_with("lower_") && is_on_hardware(below.substr(6))) return true;
    }
    return false;
}

bool is_tunnel(const std::string& name, unsigned flags) {
    std::error_code none;
    if ((flags & IFF_POINTOPOINT) != 0 || fs::exists(facts_of(name) / "tun_flags", none)) return true;
    std::ifstream in(facts_of(name) / "uevent");
    for (std::string line; std::getline(in, line);)
        if (line == "DEVTYPE=vxlan" || line == "DEVTYPE=geneve") return true;
    return false;
}

kind kind_of(const std::string& name, unsigned flags) {
    std::error_code none;
    if ((flags & IFF_LOOPBACK) != 0) return kind::loopback;
    if (is_tunnel(name, flags)) return kind::tunnel;
    const bool is_bridge = fs::exists(facts_of(name) / "bridge", none);
    return is_bridge && !is_on_hardware(name) ? kind::inner_bridge : kind::link;
}

std::uint32_t ipv4_of(const sockaddr* a) { return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr; }

// Makes the kernel look up a route, without sending anything.
std::uint32_t source_to(std::uint32_t address) {
    const descriptor fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {.s_addr = address}, .sin_zero = {}};
    sockaddr_in from{};
    socklen_t bytes = sizeof from;
    const bool found = fd && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
                       ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&from), &bytes) == 0;
    return found ? from.sin_addr.s_addr : 0;
}

// Returns a text that is equal for processes with the same interfaces.
std::string this_network() {
    struct stat space {};
    if (::stat("/proc/self/ns/net", &space) != 0) space = {};
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
    return fmt::format("{} {}", boot, space.st_ino);
}

}  // namespace

std::vector<network_interface> judged(std::vector<network_interface> own, const interface_inputs& by) {
    const bool alone = by.others != nullptr && by.others->empty();
    look_at_each(own, by.chosen, alone);
    if (alone || !names_in(by.chosen, own).empty()) return own;
    if (by.others != nullptr) compare_with_others(own, by);
    leave_out_detours(own);
    leave_out_slower(own);
    return own;
}

std::vector<network_interface> own_interfaces() {
    std::map<std::string, network_interface> found;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return {};
    for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
        network_interface& to = found[i->ifa_name];
        if (to.name.empty()) {
            constexpr unsigned up = IFF_UP | IFF_RUNNING;
            to.name = i->ifa_name;
            to.up = (i->ifa_flags & up) == up;
            to.is = kind_of(to.name, i->ifa_flags);
            std::ifstream(facts_of(to.name) / "speed") >> to.rate;
            to.rate = std::max<std::int64_t>(to.rate, 0);  // some drivers write -1, and some nothing
        }
        if (to.address != 0 || i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
        to.address = ipv4_of(i->ifa_addr);
        to.bits = i->ifa_netmask != nullptr ? std::popcount(ipv4_of(i->ifa_netmask)) : 32;
    }
    ::freeifaddrs(all);
    std::vector<network_interface> own;
    for (auto& [name, i] : found) own.push_back(std::move(i));
    std::ranges::sort(own, {}, [](const network_interface& i) { return std::pair(i.name.size(), i.name); });
    return own;
}

std::vector<network_interface> interfaces_between(team& ranks, std::string_view chosen) {
    std::vector<network_interface> own = own_interfaces();
    packed text{this_network(), host_name()};
    std::vector<network_interface> offered = own;
    look_at_each(offered, chosen, false);
    for (const network_interface& i : used(offered))
        text.add({reinterpret_cast<const char*>(&i.address), sizeof i.address});
    std::map<std::string, other_host> by_network;
    for (const std::string& each : ranks.exchange(text.bytes())) {
        const packed words(each);
        other_host o{.name = std::string(words.value(1)), .addresses = {}};
        for (int a = 2; a < words.size(); ++a)
            std::memcpy(&o.addresses.emplace_back(), words.value(a).data(), sizeof(std::uint32_t));
        by_network.emplace(words.value(0), std::move(o));
    }
    std::vector<other_host> others;
    for (auto& [network, o] : by_network)
        if (network != this_network()) others.push_back(std::move(o));
    return judged(std::move(own), {chosen, &others, source_to});
}

std::vector<network_interface> used(const std::vector<network_interface>& judged) {
    std::vector<network_interface> found;
    std::copy_if(judged.begin(), judged.end(), std::back_inserter(found), is_used);
    return found;
}

std::string address_text(std::uint32_t address) {
    std::array<char, INET_ADDRSTRLEN> text{};
    ::inet_ntop(AF_INET, &address, text.data(), text.size());
    return text.data();
}

std::string description(const std::vector<network_interface>& judged) {
    std::vector<std::string> texts;
    for (const network_interface& i : used(judged))
        texts.push_back(
            fmt::format("{} ({}) is used", i.name, i.address == 0 ? "no IPv4 address" : address_text(i.address)));
    for (const network_interface& i : judged)
        if (!is_used(i)) texts.push_back(fmt::format("{} is not: {}", i.name, i.left_out));
    return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace terrace::detail
