// The data with which terrace-bench checks results.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/element_types.hpp"
#include "bench/measure/exact.hpp"
#include "kernels/reduce.hpp"

namespace terrace::detail::bench::exact_data_test {

namespace {

constexpr std::int64_t elements = 2500;  // more than two periods of the data

using bytes = std::vector<std::byte>;

// Reduces groups of `group` inputs, then the groups' results.
bytes reduced(const std::vector<bytes>& inputs, element_type type, reduce_op op, std::size_t group) {
    const auto combine = [&](const std::vector<bytes>& parts, int divisor) {
        if (parts.size() == 1) return parts.front();
        std::vector<const void*> sources;
        for (const bytes& p : parts) sources.push_back(p.data());
        bytes result(parts.front().size());
        find_reduce(type, op)(result.data(), sources.data(), static_cast<int>(sources.size()), elements, divisor);
        return result;
    };
    const int divisor = op == reduce_op::avg ? static_cast<int>(inputs.size()) : 1;
    std::vector<bytes> parts;
    for (std::size_t i = 0; i < inputs.size(); i += group)
        parts.push_back(combine({inputs.begin() + static_cast<std::ptrdiff_t>(i),
                                 inputs.begin() + static_cast<std::ptrdiff_t>(std::min(i + group, inputs.size()))},
                                group >= inputs.size() ? divisor : 1));
    return combine(parts, divisor);
}

using pair = std::pair<element_type, reduce_op>;

std::vector<pair> defined_pairs() {
    std::vector<pair> pairs;
    for (const element_type type : all_element_types)
        for (const reduce_op op : all_reduce_ops)
            if (is_defined(op, type)) pairs.emplace_back(type, op);
    return pairs;
}

class exact_of : public testing::TestWithParam<std::tuple<pair, int>> {
protected:
    element_type type = std::get<0>(GetParam()).first;
    reduce_op op = std::get<0>(GetParam()).second;
    int ranks = std::get<1>(GetParam());
    exact_data data{type, op, ranks - 1, ranks};
    std::vector<bytes> inputs;

    void SetUp() override {
        for (int r = 0; r < ranks; ++r) {
            const bytes tile = data.input_of(r);
            for (bytes& all = inputs.emplace_back(); all.size() < elements * size_of(type);)
                all.insert(all.end(), tile.begin(), tile.end());
        }
    }
};

TEST_P(exact_of, any_grouping_gives_the_expected_result) {
    for (const std::size_t group : {2, 3, ranks}) {
        const bytes result = reduced(inputs, type, op, group);
        EXPECT_EQ(data.wrong_results(result.data(), 0, elements), 0) << "in groups of " << group;
        const std::int64_t first = 1100;  // a block's results
        EXPECT_EQ(data.wrong_results(result.data() + first * size_of(type), first, elements - first), 0);
    }
}

TEST_P(exact_of, faults_show) {
    bytes result = reduced(inputs, type, op, 2);
    bytes changed = result;
    changed[1500 * size_of(type)] ^= std::byte{1};
    EXPECT_EQ(data.wrong_results(changed.data(), 0, elements), 1);
    const bool flat = op == reduce_op::min || op == reduce_op::max || (op == reduce_op::avg && size_of(type) == 1);
    if (ranks > 8 && flat) return;  // nearly all results are equal
    EXPECT_GT(data.wrong_results(result.data() + size_of(type), 0, elements - 1), elements / 4) << "moved by one";
    std::vector<bytes> others = inputs;
    others.back() = others.front();
    EXPECT_GT(data.wrong_results(reduced(others, type, op, 2).data(), 0, elements), 0) << "one twice, one left out";
    data.spoil(result.data(), elements);
    EXPECT_GT(data.wrong_results(result.data(), 0, elements), elements / 2);
}

TEST_P(exact_of, rounded_results_are_near) {
    if (!is_real(type) || op != reduce_op::sum) return;
    const bytes result = reduced(inputs, type, op, 2);
    EXPECT_EQ(data.wrong_results(result.data(), 0, elements, 0.01), 0);
    bytes less = result;
    with_type(type, [&]<class T>(std::type_identity<T>) {
        if constexpr (is_real(element_type_of<T>)) {
            const T none(0.0f);
            std::memcpy(less.data() + 10 * sizeof(T), &none, sizeof(T));
        }
    });
    EXPECT_EQ(data.wrong_results(less.data(), 0, elements, 1e-9), 1);
    EXPECT_EQ(data.wrong_results(less.data(), 0, elements, 2), 0);
    data.spoil(less.data(), elements);
    EXPECT_EQ(data.wrong_results(less.data(), 0, elements, 2), elements) << "no numbers";
}

TEST_P(exact_of, inputs_tell_ranks_apart) {
    bytes own(elements * size_of(type));
    data.fill(own.data(), elements);
    EXPECT_EQ(data.wrong_inputs(ranks - 1, own.data(), elements), 0);
    EXPECT_EQ(data.wrong_inputs(ranks - 1, inputs.back().data(), elements), 0);
    EXPECT_GT(data.wrong_inputs(ranks - 1, inputs.front().data(), elements), 0);
}

std::string name_of(const testing::TestParamInfo<std::tuple<pair, int>>& info) {
    const auto [of, ranks] = info.param;
    const auto [type, op] = of;
    return std::string(to_string(type)) + "_" + std::string(to_string(op)) + "_" + std::to_string(ranks);
}

// 300 ranks: more than bfloat16, uint8 and int8 can count.
INSTANTIATE_TEST_SUITE_P(all, exact_of,
                         testing::Combine(testing::ValuesIn(defined_pairs()), testing::Values(2, 3, 8, 300)), name_of);

}  // namespace

}  // namespace terrace::detail::bench::exact_data_test
