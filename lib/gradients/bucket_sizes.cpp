#include "gradients/bucket_sizes.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/element_types.hpp"
#include "base/index.hpp"

namespace terrace::detail {

namespace {

struct choice {
    gradient_options sizes;
    std::size_t buckets = 0;
    double end = 0;  // predicted_end
};

choice choice_of(std::span<const gradient_parameter> parameters, std::span<const int> order,
                 std::span<const double> ready, const gradient_options& sizes,
                 const std::function<double(std::int64_t)>& predicted) {
    std::vector<double> ready_at(parameters.size(), ready.empty() ? 0 : ready.back());
    for (std::size_t place = 0; place < ready.size(); ++place) ready_at[at(order[place])] = ready[place];
    const std::vector<bucket_layout> layout = lay_out(parameters, order, sizes);
    choice made{sizes, layout.size()};
    for (const bucket_layout& b : layout) {
        for (int p : b.parameters) made.end = std::max(made.end, ready_at[at(p)]);
        made.end += predicted(b.bytes());
    }
    return made;
}

}  // namespace

std::vector<bucket_layout> lay_out(std::span<const gradient_parameter> parameters, std::span<const int> order,
                                   const gradient_options& o) {
    struct open_bucket {
        bucket_layout what;
        std::size_t last = 0;  // place of its last gradient in the order
        std::int64_t cap = 0;
    };
    std::vector<open_bucket> buckets;
    constexpr std::size_t none = ~std::size_t{0};
    std::array<std::size_t, all_element_types.size()> open{};  // by type: the bucket that may get more gradients
    open.fill(none);
    bool first = true;
    for (std::size_t place = 0; place < order.size(); ++place) {
        const gradient_parameter& p = parameters[at(order[place])];
        const auto bytes = static_cast<std::int64_t>(bytes_of(p));
        if (p.row > 0) {
            buckets.push_back({{p.type, 0, {order[place]}}, place, 0});
            continue;
        }
        std::size_t& current = open[static_cast<std::size_t>(p.type)];
        if (current == none || buckets[current].what.bytes() + bytes > buckets[current].cap) {
            current = buckets.size();
            const std::int64_t cap = first ? std::min(o.first_bucket_bytes, o.bucket_bytes) : o.bucket_bytes;
            first = false;
            buckets.push_back({{p.type, 0, {}}, 0, cap});
        }
        open_bucket& b = buckets[current];
        b.what.count += p.count;
        b.what.parameters.push_back(order[place]);
        b.last = place;
        if (b.what.bytes() >= b.cap) current = none;
    }
    std::sort(buckets.begin(), buckets.end(), [](const auto& a, const auto& b) { return a.last < b.last; });
    std::vector<bucket_layout> result;
    for (open_bucket& b : buckets) result.push_back(std::move(b.what));
    return result;
}

std::vector<int> reverse_order(std::size_t parameters) {
    std::vector<int> order(parameters);
    std::iota(order.rbegin(), order.rend(), 0);
    return order;
}

double predicted_end(std::span<const gradient_parameter> parameters, std::span<const int> order,
                     std::span<const double> ready, const gradient_options& sizes,
                     const std::function<double(std::int64_t)>& predicted) {
    return choice_of(parameters, order, ready, sizes, predicted).end;
}

gradient_options sizes_that_end_first(std::span<const gradient_parameter> parameters, std::span<const int> order,
                                      std::span<const double> ready, const gradient_options& present,
                                      const std::function<double(std::int64_t)>& predicted) {
    constexpr double alike = 1.005;  // closer ends count as equal: predictions are no more exact
    constexpr std::int64_t smallest = 64 << 10;
    std::int64_t all = 0;
    for (const gradient_parameter& p : parameters) all += static_cast<std::int64_t>(bytes_of(p));
    std::vector<std::int64_t> sizes{0};
    for (std::int64_t size = smallest; size / 2 < all; size *= 2) sizes.push_back(size);
    std::vector<choice> choices{choice_of(parameters, order, ready, present, predicted)};
    for (std::int64_t size : sizes)
        for (std::int64_t first : sizes) {
            if (first > size) break;
            gradient_options o = present;
            o.bucket_bytes = size;
            o.first_bucket_bytes = first;
            choices.push_back(choice_of(parameters, order, ready, o, predicted));
        }
    const double least = std::ranges::min_element(choices, {}, &choice::end)->end;
    std::erase_if(choices, [&](const choice& c) { return c.end > least * alike; });
    const auto calls = [](const choice& c) { return std::pair(c.buckets, c.end); };  // each bucket costs processor time
    return std::ranges::min_element(choices, {}, calls)->sizes;
}

}  // namespace terrace::detail
