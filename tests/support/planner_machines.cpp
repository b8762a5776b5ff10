#include "support/planner_machines.hpp"

#include <utility>

#include <fmt/format.h>

namespace terrace::detail::test {

namespace {

const std::vector<level> three_levels{link("node", fabric::shm, 10e9, 0.5e-6, 0.3e-6),
                                      link("rack", fabric::ethernet, 125e6, 30e-6, 5e-6),
                                      link("core", fabric::ethernet, 62.5e6, 40e-6, 5e-6)};

}  // namespace

hierarchy machine(tree shape) {
    hierarchy h;
    h.levels.assign(three_levels.begin(), three_levels.begin() + shape.depth());
    h.shape = std::move(shape);
    return h;
}

hierarchy two_nodes() { return machine(tree::uniform(std::vector{4, 2})); }
hierarchy two_racks() { return machine(tree::uniform(std::vector{3, 2, 2})); }
hierarchy uneven() { return machine(tree({{4, 2, 3, 3, 1}, {2, 3}, {2}})); }
hierarchy network(int ranks) {
    return {{link("net", fabric::infiniband, 1e9, 10e-6, 2e-6)}, tree::uniform(std::vector{ranks})};
}

hierarchy free_network(tree shape, double overhead) {
    hierarchy h{{}, std::move(shape), {1e18}};
    for (int l = 0; l < h.shape.depth(); ++l)
        h.levels.push_back(link(fmt::format("l{}", l), fabric::ethernet, 1e9 / (1 + l), 10e-6 * (1 + l), overhead));
    return h;
}

hierarchy pairs_of_pairs(int levels) {
    hierarchy h{{}, tree::uniform(std::vector(static_cast<std::size_t>(levels), 2)), {1e18}};
    for (int l = 0; l < levels; ++l)
        h.levels.push_back(link(fmt::format("l{}", l), fabric::infiniband, 1e9, 2e-6, 1e-6));
    return h;
}

hierarchy unequal_links(double slow) {
    hierarchy h = machine(tree({{4, 4, 2}, {3}}));
    h.levels.back() = with_rates(h.levels.back(), {125e6, 125e6, slow});
    return h;
}

hierarchy three_racks() {
    return {{link("node", fabric::shm, 1.599e9, 1.5e-6, 6.2e-6), link("rack", fabric::ethernet, 119.6e6, 0, 35.2e-6),
             link("core", fabric::ethernet, 119.5e6, 0, 71.8e-6)},
            tree::uniform(std::vector{2, 2, 3})};
}

hierarchy gpu_nodes(int nodes, std::optional<device_rates> nccl, std::optional<device_rates> mpi) {
    hierarchy h{{link("node", fabric::nvlink, 450e9, 2e-6, 1e-6), link("pod", fabric::ethernet, 10e9, 20e-6, 1e-6)},
                tree::uniform(std::vector{8, nodes})};
    h.processors.reduction = 10e12;
    h.levels[0].nccl = device_rates{.stage = 12e-6, .step = 10e-6, .bandwidth = 400e9};
    h.levels[1].nccl = nccl;
    h.levels[1].mpi = mpi;
    return h;
}

rule rule_of(std::vector<stage> stages, int lanes, std::int64_t chunk) {
    return {.up_to = rule::no_bound, .lanes = lanes, .chunk = chunk, .stages = std::move(stages)};
}

hierarchy with_nics(hierarchy h, const std::string& nics) {
    const document map = document::parse("nics: " + nics, "f");
    const int l = h.node_levels();
    h.nics = read_nics(
        map.at("nics"), h.node_sizes(), [&](int node) { return h.rate(l, node); }, 1e9);
    limit_to_nics(h);
    return h;
}

hierarchy random_racks(dice& d) {
    const std::size_t racks = d.pick(std::vector<std::size_t>{1, 1, 2, 3});
    std::vector<std::vector<int>> children(racks > 1 ? 3 : 2);
    for (std::size_t rack = 0; rack < racks; ++rack) {
        const auto nodes = static_cast<int>(racks > 1 ? 1 + d.below(3) : 2 + d.below(4));
        children[1].push_back(nodes);
        for (int n = 0; n < nodes; ++n) children[0].push_back(static_cast<int>(1 + d.below(4)));
    }
    if (racks > 1) children[2] = {static_cast<int>(racks)};
    const double node = 50e6 + 5e6 * static_cast<double>(d.below(16));
    hierarchy h;
    h.levels = {link("node", fabric::shm, 4e9, 1e-6, 0.5e-6), link("rack", fabric::ethernet, node, 20e-6, 10e-6)};
    if (racks > 1)
        h.levels.push_back(
            link("core", fabric::ethernet, node * (0.5 + 0.25 * static_cast<double>(d.below(7))), 20e-6, 10e-6));
    h.shape = tree(std::move(children));
    level& top = h.levels.back();
    if (d.below(3) == 0) {
        std::vector<double> rates(static_cast<std::size_t>(h.shape.members(h.depth() - 1)), top.bandwidth);
        d.pick(rates) *= d.pick(std::vector{0.5, 0.75});
        top = with_rates(top, rates);
    }
    return h;
}

std::vector<hierarchy> machines() {
    return {two_nodes(),
            two_racks(),
            uneven(),
            network(1),
            network(7),
            machine(tree::uniform(std::vector{1, 1})),
            machine(tree::uniform(std::vector{1, 4, 2})),
            machine(tree::uniform(std::vector{2, 8, 3})),
            machine(tree({{3, 3, 1}, {3}})),
            machine(tree({{2, 2, 1, 3, 1}, {3, 2}, {2}}))};
}

}  // namespace terrace::detail::test
