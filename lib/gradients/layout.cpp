#include "gradients/layout.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/element_types.hpp"
#include "base/index.hpp"

namespace terrace::detail {

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

}  // namespace terrace::detail
