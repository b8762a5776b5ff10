// The interface of its node that a rank uses.

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/creation/nic_interface.hpp"

namespace terrace::detail::test::nic_interface_test {

namespace {

using names = std::vector<std::string>;

std::vector<network_interface> up(const names& some, const names& slower = {}) {
    std::vector<network_interface> made;
    for (const std::string& name : some) made.push_back({.name = name});
    for (const std::string& name : slower) made.push_back({.name = name, .left_out = "slow", .slower = true});
    return made;
}

}  // namespace

TEST(nic_interface, is_the_one_at_the_place_of_the_nic) {
    const nic_set two = shared_nics({{1e9, 1e9}, {1e9, 1e9}}, std::array{4, 4});
    const names of_rank{"eth9", "eth9", "eth10", "eth10", "eth9", "eth9", "eth10", "eth10"};
    for (int rank = 0; rank < 8; ++rank) {
        const names one{of_rank[static_cast<std::size_t>(rank)]};
        EXPECT_EQ(interfaces_of(two, rank, up({"eth9", "eth10"})).names, one);
        EXPECT_EQ(interfaces_of(two, rank, up({"eth9"}, {"eth10"})).names, one);
        EXPECT_EQ(interfaces_of(two, rank, up({"eth9", "eth10"}, {"eth11"})).names, one);
    }
    EXPECT_EQ(interfaces_of({}, 0, up({"eth0", "eth1"})).names, (names{"eth0", "eth1"}));
    EXPECT_EQ(interfaces_of({}, 0, up({"eth0", "eth1"})).note, "");
}

TEST(nic_interface, is_unknown_where_their_numbers_differ_and_a_note_says_so) {
    const nic_set uneven = shared_nics({{1e9, 1e9}, {1e9}}, std::array{2, 2});
    const interface_choice few = interfaces_of(uneven, 1, up({"eth0"}));
    EXPECT_EQ(few.names, names{"eth0"});
    EXPECT_NE(few.note.find("2 NICs in the plan, and 1 of its interfaces is in use"), std::string::npos) << few.note;
    EXPECT_EQ(interfaces_of(uneven, 3, up({"eth0"})).note, "");
    const interface_choice many = interfaces_of(uneven, 3, up({"eth0", "eth1"}));
    EXPECT_EQ(many.names, (names{"eth0", "eth1"}));
    EXPECT_NE(many.note.find("1 NIC in the plan, and 2 of its interfaces are in use"), std::string::npos) << many.note;
    EXPECT_NE(many.note.find("UCX_NET_DEVICES"), std::string::npos) << many.note;
}

}  // namespace terrace::detail::test::nic_interface_test
