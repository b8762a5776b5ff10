#include "gradients/row_exchange.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "gradients/float_types.hpp"

namespace terrace::detail {

namespace {

std::size_t size_from(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

}  // namespace

row_exchange::row_exchange(const gradient_parameter& p, const gradient_options& o)
    : options_(o), row_(p.row), rows_of_parameter_(p.count / p.row), type_(p.type), sum_(size_from(p.row)) {}

void row_exchange::add(std::span<const std::int64_t> rows, const void* values) {
    for (std::int64_t row : rows)
        if (row < 0 || row >= rows_of_parameter_)
            throw usage_error(
                fmt::format("ready: there is no row {}; there are {}, numbered from 0", row, rows_of_parameter_));
    rows_.insert(rows_.end(), rows.begin(), rows.end());
    const std::size_t before = values_.size();
    values_.resize(rows_.size() * row_bytes());
    if (!rows.empty()) std::memcpy(&values_[before], values, values_.size() - before);
}

void row_exchange::start(communicator& comm, const bucket_marks& marks, double factor) {
    comm_ = &comm;
    factor_ = factor;
    followed_up_ = false;
    mine_ = {static_cast<std::int64_t>(rows_.size()), marks.lacks_gradient, marks.asks_for_order};
    all_.resize(words * size_from(comm.size()));
    counts_call_ = comm.allgather_async(std::as_const(mine_), all_);
}

bool row_exchange::follow_up() {
    if (followed_up_) return true;
    if (!counts_call_.test()) return false;
    followed_up_ = true;
    std::int64_t most = 0;
    for (std::size_t r = 0; r < all_.size(); r += words) most = std::max(most, all_[r]);
    // Counts are padded to powers of two, so calls have few shapes.
    const std::size_t padded = most == 0 ? 0 : std::bit_ceil(size_from(most));
    dense_ = is_faster_dense(most, padded);
    if (factor_ != 1) scale_floats(values_.data(), static_cast<std::int64_t>(rows_.size()) * row_, type_, factor_);
    if (dense_) send_dense();
    rows_.resize(padded, -1);
    all_rows_.resize(padded * size_from(comm_->size()));
    if (padded > 0) rows_call_ = comm_->allgather_async(std::as_const(rows_), all_rows_);
    if (!dense_ && padded > 0) send_rows();
    return true;
}

// Returns the same on all ranks, since all know `most` and have the same plan. Row numbers are sent in both cases.
bool row_exchange::is_faster_dense(std::int64_t most, std::size_t padded) const {
    const auto bytes = [&](std::size_t rows) { return static_cast<std::int64_t>(rows * row_bytes()); };
    if (options_.dense_above == 0 && most > 0) {
        const double dense = comm_->predicted(bytes(size_from(rows_of_parameter_)));
        const double sparse = comm_->predicted_allgather(bytes(padded * size_from(comm_->size())));
        if (dense > 0 && sparse > 0) return dense < sparse;
    }
    // Without predictions: a ring gathers P - 1 parts of `most` rows, and reduces in 2 (P - 1) / P parts of all rows.
    const double limit = options_.dense_above > 0 ? options_.dense_above : 2.0 / comm_->size();
    return static_cast<double>(most) > limit * static_cast<double>(rows_of_parameter_);
}

void row_exchange::send_rows() {
    values_.resize(rows_.size() * row_bytes());
    all_values_.resize(all_rows_.size() * row_bytes());
    values_call_ = comm_->allgather_async(values_.data(), all_values_.data(),
                                          static_cast<std::int64_t>(rows_.size()) * row_, type_);
}

void row_exchange::send_dense() {
    dense_values_.assign(size_from(rows_of_parameter_) * row_bytes(), std::byte{});
    for (std::size_t i = 0; i < rows_.size(); ++i)
        add_floats(&dense_values_[size_from(rows_[i]) * row_bytes()], &values_[i * row_bytes()], row_, type_);
    const reduction op = options_.weighted ? reduce_op::sum : options_.op;
    values_call_ = comm_->allreduce_async(dense_values_.data(), dense_values_.data(), rows_of_parameter_ * row_, type_,
                                          options_.rounds_on_wire ? op : exact(op));
}

bucket_marks row_exchange::marks() const noexcept {
    bucket_marks marks;
    for (std::size_t r = 0; r < all_.size(); r += words) {
        marks.lacks_gradient |= all_[r + 1] != 0;
        marks.asks_for_order |= all_[r + 2] != 0;
    }
    return marks;
}

void row_exchange::merge() {
    clear_result();
    const std::size_t padded = rows_.size();
    order_.clear();
    for (std::size_t r = 0; r * words < all_.size(); ++r)
        for (std::size_t i = 0; i < size_from(all_[r * words]); ++i) order_.push_back(r * padded + i);
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
        return all_rows_[a] != all_rows_[b] ? all_rows_[a] < all_rows_[b] : a < b;
    });
    for (std::size_t first = 0, last = 0; first < order_.size(); first = last) {
        while (last < order_.size() && all_rows_[order_[last]] == all_rows_[order_[first]]) ++last;
        with_float_type(type_, [&]<class T>(std::type_identity<T>) { merge_as<T>(first, last); });
    }
}

// Adds up equal rows, order_[first] ... order_[last - 1]. Their sum is rounded once.
template <class T>
void row_exchange::merge_as(std::size_t first, std::size_t last) {
    using wide = accumulator_t<T>;
    const std::int64_t row = all_rows_[order_[first]];
    result_rows_.push_back(row);
    const std::size_t at = result_.size();
    result_.resize(at + row_bytes());
    if (dense_) {
        std::memcpy(&result_[at], &dense_values_[size_from(row) * row_bytes()], row_bytes());
        return;
    }
    std::fill(sum_.begin(), sum_.end(), 0);
    for (std::size_t n = first; n < last; ++n) {
        const T* each = reinterpret_cast<const T*>(&all_values_[order_[n] * row_bytes()]);
        for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(static_cast<wide>(each[i]));
    }
    const double divisor = options_.op == reduce_op::avg && !options_.weighted ? comm_->size() : 1;
    T* to = reinterpret_cast<T*>(&result_[at]);
    for (std::size_t i = 0; i < sum_.size(); ++i) to[i] = static_cast<T>(static_cast<wide>(sum_[i] / divisor));
}

}  // namespace terrace::detail
