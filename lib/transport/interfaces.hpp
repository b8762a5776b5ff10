#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/team.hpp"

namespace terrace::detail {

/// A network interface of this host.
struct network_interface {
    enum class kind : std::uint8_t {
        link,
        tunnel,        ///< of a VPN or an overlay network: packets go on by another interface
        inner_bridge,  ///< joins containers or virtual machines of this host: no hardware is below it
        loopback
    };
    std::string name;
    std::uint32_t address = 0;  ///< its first IPv4 address, as UCX uses it, in network order; 0: none
    int bits = 32;              ///< of the address, that name its network
    std::int64_t rate = 0;      ///< [Mbit/s]; 0: unknown
    kind is = kind::link;
    bool up = true;
    std::string left_out{};  ///< why ranks do not use it; empty: they do
    bool slower = false;     ///< it is left out for its rate alone
};

/// Another host of the job.
struct other_host {
    std::string name;
    std::vector<std::uint32_t> addresses;
};

/// What decides which interfaces of a host are used, besides themselves.
struct surroundings {
    std::string_view chosen{};                ///< the user's UCX_NET_DEVICES; the interfaces in it are used
    const std::vector<other_host>* others{};  ///< null: unknown
    std::function<std::uint32_t(std::uint32_t)>
        source{};  ///< where this host's packets to an address come from; 0: no way
};

/// Says of each interface of a host why it is left out, if it is: docs/reference/ports.md has the rule.
std::vector<network_interface> judged(std::vector<network_interface> own, const surroundings& by);

/// Returns this host's interfaces as its kernel describes them, eth9 before eth10.
std::vector<network_interface> own_interfaces();

/// Judges this host's interfaces by those of all hosts of the ranks. Collective. @throws transport_error
std::vector<network_interface> interfaces_between(team& ranks, std::string_view chosen);

std::vector<network_interface> used(const std::vector<network_interface>& judged);

/// "10.0.0.1"
std::string address_text(std::uint32_t address);
/// "eth1 (10.0.0.1) is used; docker0 is not: node2 has 172.17.0.1, too"
std::string description(const std::vector<network_interface>& judged);

}  // namespace terrace::detail
