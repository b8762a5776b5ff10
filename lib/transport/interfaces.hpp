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
        tunnel,        ///< of a VPN or an overlay network: another interface carries its packets
        inner_bridge,  ///< bridge of containers or virtual machines of this host, without hardware below
        loopback
    };
    std::string name;
    std::uint32_t address = 0;  ///< first IPv4 address, which UCX uses, in network order; 0: none
    int bits = 32;              ///< length of the network prefix of the address
    std::int64_t rate = 0;      ///< [Mbit/s]; 0: unknown
    kind is = kind::link;
    bool up = true;
    std::string left_out{};  ///< reason why ranks do not use the interface; empty: they use it
    bool slower = false;     ///< true if its rate is the only reason
};

/// Another host of the job.
struct other_host {
    std::string name;
    std::vector<std::uint32_t> addresses;
};

/// Inputs of judged(), besides the interfaces themselves.
struct interface_inputs {
    std::string_view chosen{};                ///< the user's UCX_NET_DEVICES; interfaces that it names are used
    const std::vector<other_host>* others{};  ///< other hosts of the job; null: unknown
    std::function<std::uint32_t(std::uint32_t)>
        source{};  ///< returns the source address of this host's packets to an address; 0: no route
};

/// Returns interfaces of a host with `left_out` set for unused ones, by the rule in docs/reference/ports.md.
std::vector<network_interface> judged(std::vector<network_interface> own, const interface_inputs& by);

/// Returns this host's interfaces as its kernel describes them, eth9 before eth10.
std::vector<network_interface> own_interfaces();

/// Returns judged() of this host, given the interfaces of all hosts of the ranks. Collective. @throws transport_error
std::vector<network_interface> interfaces_between(team& ranks, std::string_view chosen);

std::vector<network_interface> used(const std::vector<network_interface>& judged);

/// Returns an address as text: "10.0.0.1".
std::string address_text(std::uint32_t address);
/// Returns a text such as "eth1 (10.0.0.1) is used; docker0 is not: node2 has 172.17.0.1, too".
std::string description(const std::vector<network_interface>& judged);

}  // namespace terrace::detail
