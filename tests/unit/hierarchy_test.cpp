#include "machine/hierarchy.hpp"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <terrace/error.hpp>

#include "machine/likeness.hpp"

namespace terrace::detail::hierarchy_test {
namespace {

using sizes = std::vector<std::vector<int>>;

// Two racks with nodes of [4, 2] and [3, 3, 1] ranks.
const tree uneven{sizes{{4, 2, 3, 3, 1}, {2, 3}, {2}}};

TEST(tree, counts) {
    EXPECT_EQ(uneven.ranks(), 13);
    EXPECT_EQ(uneven.depth(), 3);
    EXPECT_EQ(uneven.domains(0), 5);
    EXPECT_EQ(uneven.members(0), 13);
    EXPECT_EQ(uneven.members(2), 2);
    EXPECT_EQ(uneven.first_child(1, 1), 2);
    EXPECT_EQ(uneven.first_rank(1, 1), 6);
    EXPECT_EQ(uneven.first_rank(0, 5), 13);
    EXPECT_EQ(uneven.first_rank(-1, 7), 7);
    EXPECT_FALSE(uneven.uniform());
    EXPECT_EQ(uneven.uniform_size(2), 2);
    EXPECT_FALSE(uneven.uniform_size(1));
    EXPECT_EQ(shape_text(uneven), "1-4 x 2-3 x 2");
}

TEST(tree, domain_of_agrees_with_first_rank) {
    for (int l = 0; l < uneven.depth(); ++l)
        for (int r = 0; r < uneven.ranks(); ++r) {
            const int d = uneven.domain_of(l, r);
            EXPECT_LE(uneven.first_rank(l, d), r);
            EXPECT_LT(r, uneven.first_rank(l, d + 1));
        }
}

TEST(tree, parent_agrees_with_first_child) {
    for (const tree& t : {uneven, tree::uniform(std::vector{3, 2, 2})})
        for (int l = 0; l < t.depth(); ++l)
            for (int child = 0; child < t.members(l); ++child) {
                const int d = t.parent(l, child);
                EXPECT_LE(t.first_child(l, d), child);
                EXPECT_LT(child, t.first_child(l, d + 1));
            }
}

TEST(tree, common_level) {
    EXPECT_EQ(uneven.common_level(3, 3), -1);
    EXPECT_EQ(uneven.common_level(0, 3), 0);
    EXPECT_EQ(uneven.common_level(3, 4), 1);
    EXPECT_EQ(uneven.common_level(5, 6), 2);
}

TEST(likeness, domains_that_nest_equally_are_alike) {
    const tree t{sizes{{4, 2, 4, 2, 2, 4}, {2, 2, 2}, {3}}};
    const likeness kinds(t);
    EXPECT_EQ(kinds.of(0, 0), kinds.of(0, 2));
    EXPECT_NE(kinds.of(0, 0), kinds.of(0, 1));
    EXPECT_EQ(kinds.of(1, 0), kinds.of(1, 1));
    EXPECT_NE(kinds.of(1, 0), kinds.of(1, 2)) << "the same children in another order";
    EXPECT_EQ(kinds.firsts(0), (std::vector{0, 1}));
    EXPECT_EQ(kinds.firsts(1), (std::vector{0, 2}));
}

TEST(likeness, domains_of_a_rank_that_is_apart_are_like_no_others) {
    const tree t = tree::uniform(std::vector{2, 2, 3});
    const likeness kinds(t, 4);
    EXPECT_EQ(kinds.of(0, 0), kinds.of(0, 3));
    EXPECT_NE(kinds.of(0, 2), kinds.of(0, 3));
    EXPECT_EQ(kinds.of(1, 0), kinds.of(1, 2));
    EXPECT_NE(kinds.of(1, 1), kinds.of(1, 2));
    EXPECT_EQ(kinds.firsts(0), (std::vector{0, 2}));
    EXPECT_EQ(kinds.firsts(1), (std::vector{0, 1})) << "rank 4 is in the second one";
    EXPECT_EQ(likeness(t, 0).firsts(1), (std::vector{0, 1})) << "the others, too";
}

TEST(tree, uniform_trees_are_products) {
    const std::vector<int> three{3, 2, 2};
    const tree t = tree::uniform(three);
    EXPECT_EQ(t, tree(sizes{{3, 3, 3, 3}, {2, 2}, {2}}));
    EXPECT_EQ(t.ranks(), 12);
    EXPECT_TRUE(t.uniform());
    EXPECT_EQ(shape_text(t), "3 x 2 x 2");
}

TEST(tree, refuses_what_does_not_nest) {
    for (const sizes& wrong : {sizes{}, sizes{{2, 2}}, sizes{{2, 2}, {3}}, sizes{{2, 0}, {2}}, sizes{{}, {2}}})
        EXPECT_THROW(tree{wrong}, usage_error);
}

TEST(hierarchy, nodes_end_below_the_first_network) {
    const auto machine = [](const std::vector<fabric>& fabrics) {
        hierarchy h;
        for (const fabric f : fabrics) h.levels.push_back({.name = "x", .medium = f});
        h.shape = uneven;
        return h;
    };
    EXPECT_EQ(machine({fabric::shm, fabric::ethernet, fabric::ethernet}).node_sizes(),
              (std::vector<int>{4, 2, 3, 3, 1}));
    EXPECT_EQ(machine({fabric::nvlink, fabric::bus, fabric::infiniband}).node_sizes(), (std::vector<int>{6, 7}));
    EXPECT_EQ(machine({fabric::ethernet, fabric::ethernet, fabric::ethernet}).node_sizes(), std::vector<int>(13, 1));
    EXPECT_EQ(machine({fabric::shm, fabric::pcie, fabric::bus}).node_levels(), 3);
}

TEST(hierarchy, parts_keep_levels_and_drop_empty_domains) {
    hierarchy h;
    for (const char* name : {"node", "rack", "core"}) h.levels.push_back({.name = name});
    h.shape = uneven;  // nodes of 4, 2 | 3, 3, 1 ranks
    const auto part = [&](const std::vector<int>& ranks) { return part_of(h, ranks).shape.children(); };
    std::vector<int> all(13);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(part(all), uneven.children());
    EXPECT_EQ(part({12}), (sizes{{1}, {1}, {1}}));
    EXPECT_EQ(part({0, 3, 4, 9}), (sizes{{2, 1, 1}, {2, 1}, {2}}));
    EXPECT_EQ(part({6, 7, 12}), (sizes{{2, 1}, {2}, {1}}));
    EXPECT_EQ(part_of(h, std::vector{0, 6}).levels.size(), 3u);
}

TEST(fabric, names_read_back) {
    for (const fabric f :
         {fabric::shm, fabric::nvlink, fabric::pcie, fabric::bus, fabric::infiniband, fabric::ethernet})
        EXPECT_EQ(parse_fabric(to_string(f)), f);
    EXPECT_FALSE(parse_fabric("token-ring"));
}

}  // namespace
}  // namespace terrace::detail::hierarchy_test
