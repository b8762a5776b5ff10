#include "gradients/bucket_sizes.hpp"

#include <algorithm>
#include <vector>

#include "base/index.hpp"
#include "gradients/layout.hpp"

namespace terrace::detail {

double predicted_end(std::span<const gradient_parameter> parameters, std::span<const int> order,
                     std::span<const double> ready, const gradient_options& sizes,
                     const std::function<double(std::int64_t)>& predicted) {
    std::vector<double> ready_at(parameters.size(), ready.empty() ? 0 : ready.back());
    for (std::size_t place = 0; place < ready.size(); ++place) ready_at[at(order[place])] = ready[place];
    double end = 0;
    for (const bucket_layout& b : lay_out(parameters, order, sizes)) {
        for (int p : b.parameters) end = std::max(end, ready_at[at(p)]);
        end += predicted(b.bytes());
    }
    return end;
}

gradient_options sizes_that_end_first(std::span<const gradient_parameter> parameters, std::span<const int> order,
                                      std::span<const double> ready, const gradient_options& present,
                                      const std::function<double(std::int64_t)>& predicted) {
    constexpr double worth_it = 0.99;  // predictions of times closer than that mean nothing
    constexpr std::int64_t smallest = 64 << 10;
    std::int64_t all = 0;
    for (const gradient_parameter& p : parameters) all += static_cast<std::int64_t>(bytes_of(p));
    std::vector<std::int64_t> sizes{0};
    for (std::int64_t size = smallest; size / 2 < all; size *= 2) sizes.push_back(size);
    gradient_options best = present;
    double best_end = predicted_end(parameters, order, ready, present, predicted);
    for (std::int64_t size : sizes)
        for (std::int64_t first : sizes) {
            if (first > size) break;
            gradient_options o = present;
            o.bucket_bytes = size;
            o.first_bucket_bytes = first;
            const double end = predicted_end(parameters, order, ready, o, predicted);
            if (end >= best_end * worth_it) continue;
            best = o;
            best_end = end;
        }
    return best;
}

}  // namespace terrace::detail
