// The interfaces of a host that are used, and the reasons against the others.

#include <arpa/inet.h>

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "transport/interfaces.hpp"

namespace terrace::detail::test::interfaces_test {

namespace {

using kind = network_interface::kind;
using names = std::vector<std::string>;

std::uint32_t address(const std::string& text) { return ::inet_addr(text.c_str()); }

// @param text an address as "10.0.0.1/24"
network_interface link(const std::string& name, const std::string& text, std::int64_t rate = 0, kind is = kind::link) {
    const std::size_t slash = text.find('/');
    return {.name = name,
            .address = address(text.substr(0, slash)),
            .bits = std::stoi(text.substr(slash + 1)),
            .rate = rate,
            .is = is};
}
network_interface loopback() { return link("lo", "127.0.0.1/8", 0, kind::loopback); }
network_interface tunnel(const std::string& name, const std::string& text) {
    return link(name, text, 10000, kind::tunnel);
}
network_interface bridge(const std::string& name, const std::string& text) {
    return link(name, text, 10000, kind::inner_bridge);
}

other_host host(const std::string& name, const names& addresses) {
    other_host made{.name = name, .addresses = {}};
    for (const std::string& a : addresses) made.addresses.push_back(address(a));
    return made;
}

// Source addresses of packets by target; "default" for all other targets.
using routes = std::map<std::string, std::string>;

std::vector<network_interface> judge(std::vector<network_interface> own, const std::vector<other_host>& others,
                                     const routes& by = {}, std::string_view chosen = "") {
    const auto source = [&](std::uint32_t to) {
        auto found = by.find(address_text(to));
        if (found == by.end()) found = by.find("default");
        return found == by.end() ? 0 : address(found->second);
    };
    return judged(std::move(own), {chosen, &others, source});
}

names names_of(const std::vector<network_interface>& judged) {
    names found;
    for (const network_interface& i : used(judged)) found.push_back(i.name);
    return found;
}

std::string why_not(const std::vector<network_interface>& judged, const std::string& name) {
    for (const network_interface& i : judged)
        if (i.name == name) return i.left_out;
    return "unknown";
}

}  // namespace

TEST(interfaces, whose_address_another_host_has_too_are_left_out) {
    // Only addresses decide, since names and kinds vary.
    const auto all = judge(
        {loopback(), link("eth7", "10.99.0.1/24"), link("docker0", "172.17.0.1/16"),
         bridge("virbr0", "192.168.122.1/24"), link("dummy0", "10.5.0.1/24", 100000)},
        {host("b", {"10.99.0.2", "172.17.0.1", "10.5.0.1"}), host("c", {"10.99.0.3", "192.168.122.1", "10.5.0.1"})});
    EXPECT_EQ(names_of(all), names{"eth7"});
    EXPECT_EQ(why_not(all, "docker0"), "b has 172.17.0.1, too");
    EXPECT_EQ(why_not(all, "virbr0"), "c has 192.168.122.1, too");
    EXPECT_EQ(why_not(all, "dummy0"), "b has 10.5.0.1, too");
    EXPECT_EQ(why_not(all, "lo"), "it does not leave this host");
}

TEST(interfaces, that_are_down_or_have_no_address_are_left_out) {
    network_interface down = link("eth1", "10.0.0.1/24"), bare{.name = "eth2"};
    down.up = false;
    const auto all = judge({link("eth0", "10.0.0.7/24"), down, bare}, {host("b", {"10.0.0.2"})});
    EXPECT_EQ(names_of(all), names{"eth0"});
    EXPECT_EQ(why_not(all, "eth1"), "it is down");
    EXPECT_EQ(why_not(all, "eth2"), "it has no IPv4 address");
}

TEST(interfaces, that_lead_to_no_other_host_are_left_out) {
    // Each host has a network of containers, as made by CNI. The other host's is reached by eth0 or the overlay.
    const std::vector<network_interface> own{link("eth0", "10.0.1.5/24"), bridge("cni0", "10.244.1.1/24"),
                                             tunnel("flannel.1", "10.244.1.0/32")};
    const std::vector<other_host> others{host("b", {"10.0.2.5", "10.244.2.1", "10.244.2.0"})};
    const auto by_eth = judge(own, others, {{"default", "10.0.1.5"}});
    EXPECT_EQ(names_of(by_eth), names{"eth0"});
    EXPECT_EQ(why_not(by_eth, "cni0"), "it leads to no other host");
    const routes overlay{{"10.244.2.1", "10.244.1.0"}, {"10.244.2.0", "10.244.1.0"}};
    routes both = overlay;
    both["default"] = "10.0.1.5";
    const auto by_both = judge(own, others, both);
    EXPECT_EQ(names_of(by_both), names{"eth0"});
    EXPECT_EQ(why_not(by_both, "flannel.1"), "eth0 goes before a tunnel");
    EXPECT_EQ(names_of(judge(own, others, overlay)), names{"flannel.1"});  // the only way to b
}

TEST(interfaces, of_vpns_and_bridges_inside_the_host_come_after_others) {
    const std::vector<network_interface> own{link("eth0", "10.0.0.1/24", 1000), tunnel("tun0", "10.8.0.1/24"),
                                             bridge("br-1", "172.30.0.1/24")};
    const auto all = judge(own, {host("b", {"10.0.0.2", "10.8.0.2", "172.30.0.2"})});
    EXPECT_EQ(names_of(all), names{"eth0"});
    EXPECT_EQ(why_not(all, "tun0"), "eth0 goes before a tunnel");
    EXPECT_EQ(why_not(all, "br-1"), "eth0 goes before a bridge that no hardware is below");
    EXPECT_EQ(names_of(judge(own, {host("b", {"192.168.0.2", "10.8.0.2"})})), names{"tun0"});
}

TEST(interfaces, that_lead_to_all_hosts_come_before_those_that_lead_to_some) {
    const std::vector<network_interface> own{link("eth0", "192.168.0.1/24", 1000), link("eth1", "10.0.0.1/24", 100000)};
    const auto lost = judge(own, {host("b", {"192.168.0.2", "10.0.0.2"}), host("c", {"192.168.0.3"})});
    EXPECT_EQ(names_of(lost), names{"eth0"});
    EXPECT_EQ(why_not(lost, "eth1"), "it does not lead to c, and eth0 leads to all");
    EXPECT_FALSE(names_of(judge(own, {host("b", {"10.0.0.2"}), host("c", {"192.168.0.3"})})).empty());
    // An address that two other hosts have shows no way to either of them.
    const auto twice = judge(own, {host("b", {"10.0.0.2", "172.17.0.1"}), host("c", {"10.0.0.3", "172.17.0.1"})},
                             {{"default", "192.168.0.1"}});
    EXPECT_EQ(names_of(twice), names{"eth1"});
}

TEST(interfaces, that_are_faster_are_used_and_equal_ones_together) {
    const std::vector<other_host> others{host("b", {"10.0.0.2", "10.1.0.2", "10.2.0.2"})};
    const auto all = judge(
        {link("eth0", "10.0.0.1/24", 1000), link("eth1", "10.1.0.1/24", 100000), link("eth2", "10.2.0.1/24", 100000)},
        others);
    EXPECT_EQ(names_of(all), (names{"eth1", "eth2"}));
    EXPECT_EQ(why_not(all, "eth0"), "it has 1000 Mbit/s, and another 100000");
    EXPECT_TRUE(all.front().slower);
    EXPECT_FALSE(all.back().slower);
    // One rate is unknown, so both interfaces are used.
    const auto open = judge({link("eth0", "10.0.0.1/24", 1000), link("eth1", "10.1.0.1/24")}, others);
    EXPECT_EQ(names_of(open), (names{"eth0", "eth1"}));
    // Both interfaces are in one subnet, in which packets leave from the first one's address.
    const auto rails = judge({link("ib0", "10.1.7.1/24", 100000), link("ib1", "10.1.7.9/24", 100000)},
                             {host("b", {"10.1.7.2"}), host("c", {"10.1.7.3"})}, {{"default", "10.1.7.1"}});
    EXPECT_EQ(names_of(rails), (names{"ib0", "ib1"}));
}

TEST(interfaces, that_the_user_names_are_used) {
    const std::vector<network_interface> own{loopback(), link("eth0", "10.0.0.1/24"),
                                             bridge("docker0", "172.17.0.1/16")};
    const std::vector<other_host> others{host("b", {"10.0.0.2", "172.17.0.1"})};
    const auto all = judge(own, others, {}, "docker0");
    EXPECT_EQ(names_of(all), names{"docker0"});
    EXPECT_EQ(why_not(all, "eth0"), "UCX_NET_DEVICES does not name it");
    EXPECT_EQ(names_of(judge(own, others, {}, "mlx5_0:1,eth0")), names{"eth0"});
    EXPECT_EQ(names_of(judge(own, others, {}, "eth0,docker0")), (names{"eth0", "docker0"}));
    EXPECT_EQ(names_of(judge(own, {}, {}, "eth0")), names{"eth0"});
    // These name no interface.
    for (const char* other : {"mlx5_0:1", "all", "eth"})
        EXPECT_EQ(names_of(judge(own, others, {}, other)), names{"eth0"});
}

TEST(interfaces, of_one_host_alone_are_loopback) {
    const auto all = judge({loopback(), link("eth0", "10.0.0.1/24")}, {});
    EXPECT_EQ(names_of(all), names{"lo"});
    EXPECT_EQ(why_not(all, "eth0"), "all ranks are on this host");
}

TEST(interfaces, are_judged_by_themselves_where_others_are_unknown) {
    const auto all = judged({loopback(), link("eth0", "10.0.0.1/24"), bridge("docker0", "172.17.0.1/16")}, {});
    EXPECT_EQ(description(all),
              "eth0 (10.0.0.1) is used; lo is not: it does not leave this host; docker0 is not: eth0 goes before a "
              "bridge that no hardware is below");
    EXPECT_TRUE(names_of(judged({loopback()}, {})).empty());
}

TEST(interfaces, of_this_host_have_loopback_among_them) {
    bool found = false;
    for (const network_interface& i : own_interfaces())
        found = found || (i.is == kind::loopback && address_text(i.address) == "127.0.0.1" && i.bits == 8);
    EXPECT_TRUE(found);
}

}  // namespace terrace::detail::test::interfaces_test
