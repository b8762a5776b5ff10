// Which of a node's interfaces a rank uses.

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/nic_interface.hpp"

namespace terrace::detail::test::nic_interface_test {

TEST(nic_interface, is_the_one_at_the_place_of_the_nic) {
    const nic_set two = shared_nics({{1e9, 1e9}, {1e9, 1e9}}, std::array{4, 4});
    const std::vector<std::string> up{"eth10", "eth9"};
    EXPECT_EQ(interface_of(two, 1, up), "eth9");
    EXPECT_EQ(interface_of(two, 2, up), "eth10");
    EXPECT_EQ(interface_of(two, 4, up), "eth9");
    EXPECT_EQ(interface_of(two, 7, up), "eth10");
}

TEST(nic_interface, is_unknown_where_their_numbers_differ) {
    const nic_set uneven = shared_nics({{1e9, 1e9}, {1e9}}, std::array{2, 2});
    EXPECT_EQ(interface_of(uneven, 1, {"eth0"}), "");
    EXPECT_EQ(interface_of(uneven, 3, {"eth0"}), "eth0");
    EXPECT_EQ(interface_of(uneven, 3, {"eth0", "eth1"}), "");
    EXPECT_EQ(interface_of({}, 0, {"eth0"}), "");
}

}  // namespace terrace::detail::test::nic_interface_test
