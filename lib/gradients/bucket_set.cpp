#include "gradients/bucket_set.hpp"

#include <cstring>
#include <limits>
#include <thread>

#include <fmt/format.h>

#include "base/partition.hpp"
#include "gradients/float_types.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t cache_line = 64;
constexpr int other_programs = 32;
constexpr std::int64_t marks_of_bucket = 2;  // elements

// A mark is infinite: rounding on the wire preserves infinities, and ignores them in the scale of other elements.

void store(std::byte* data, std::int64_t index, element_type type, bool set) noexcept {
    with_float_type(type, [&]<class T>(std::type_identity<T>) {
        reinterpret_cast<T*>(data)[index] =
            set ? static_cast<T>(std::numeric_limits<accumulator_t<T>>::infinity()) : T{};
    });
}

bool is_set(const std::byte* data, std::int64_t index, element_type type) noexcept {
    bool set = false;
    with_float_type(type, [&]<class T>(std::type_identity<T>) {
        set = static_cast<accumulator_t<T>>(reinterpret_cast<const T*>(data)[index]) > 0;
    });
    return set;
}

}  // namespace

bucket_set::bucket_set(std::vector<communicator*> comms, std::span<const gradient_parameter> parameters,
                       std::span<const std::unique_ptr<row_exchange>> sparse, iteration_clock& clock,
                       std::vector<bucket_layout> layout, const gradient_options& o)
    : clock_(&clock), exact_(!o.rounds_on_wire), comms_(std::move(comms)), places_(parameters.size()) {
    std::vector<std::size_t> bytes(comms_.size());
    for (std::size_t b = 0; b < layout.size(); ++b) bytes[b % bytes.size()] += room_for(layout[b]);
    for (std::size_t c = 0; c < comms_.size(); ++c) memory_.push_back(comms_[c]->allocate<std::byte>(bytes[c]));
    std::vector<std::byte*> next;
    for (window<std::byte>& w : memory_) next.push_back(w.data());
    buckets_.reserve(layout.size());
    for (bucket_layout& what : layout) {
        const std::size_t c = buckets_.size() % comms_.size();
        std::int64_t offset = 0;
        for (int p : what.parameters) {
            const std::int64_t count = sparse[at(p)] ? 0 : parameters[at(p)].count;
            places_[at(p)] = {size(), offset, count, false};
            offset += count;
        }
        bucket& b = buckets_.emplace_back();
        b.data = next[c];
        b.comm = comms_[c];
        next[c] += room_for(what);
        b.sparse = what.parameters.empty() ? nullptr : sparse[at(what.parameters.front())].get();
        if (o.error_feedback && b.sparse == nullptr) b.errors.resize(room_for(what));
        b.what = std::move(what);
    }
    // Each bucket may have a shape of its own, and so a program. Other calls have room for programs besides.
    for (communicator* comm : comms_) comm->keep_programs(other_programs + size());
}

std::size_t bucket_set::room_for(const bucket_layout& what) noexcept {
    const std::size_t bytes = static_cast<std::size_t>(what.count + marks_of_bucket) * size_of(what.type);
    return round_up(bytes, cache_line);
}

void bucket_set::copy_from(bucket_set& other, int parameter) noexcept {
    const place& p = places_[at(parameter)];
    const std::size_t bytes = static_cast<std::size_t>(p.count) * size_of(buckets_[at(p.bucket)].what.type);
    if (bytes == 0) return;
    std::memcpy(memory_of(parameter), other.memory_of(parameter), bytes);
    if (std::byte* to = errors_of(parameter)) std::memcpy(to, other.errors_of(parameter), bytes);
}

void bucket_set::start(int index, reduce_op op, const bucket_marks& marks, std::span<const char> dropped,
                       double factor) {
    bucket& b = buckets_[at(index)];
    begin_slice(b);
    started_ = index + 1;
    if (b.sparse != nullptr) {
        b.sparse->start(*b.comm, marks, factor);
        return;
    }
    // Rounding errors are those of a sum, so an average becomes a sum of scaled gradients.
    if (!b.errors.empty() && op == reduce_op::avg) {
        op = reduce_op::sum;
        factor /= b.comm->size();
    }
    if (factor != 1) scale_floats(b.data, b.what.count, b.what.type, factor);
    if (!b.errors.empty()) add_errors(b, dropped);
    close_up(b, dropped);
    store(b.data, b.travelling, b.what.type, marks.lacks_gradient);
    store(b.data, b.travelling + 1, b.what.type, marks.asks_for_order);
    const std::int64_t count = b.travelling + marks_of_bucket;
    // If gradients have moved together, errors would be at other places than gradients.
    if (!b.errors.empty() && b.travelling == b.what.count)
        b.call = b.comm->allreduce_async(b.data, b.data, count, b.what.type, b.errors.data());
    else b.call = b.comm->allreduce_async(b.data, b.data, count, b.what.type, exact_ ? exact(op) : reduction(op));
}

void bucket_set::skip(int index) noexcept {
    bucket& b = buckets_[at(index)];
    b.complete = b.skipped = true;
    std::memset(b.data, 0, static_cast<std::size_t>(b.what.bytes()));
    started_ = index + 1;
}

// Adds the rounding errors of the last iteration to the gradients of this one.
void bucket_set::add_errors(bucket& b, std::span<const char> dropped) noexcept {
    for (int p : b.what.parameters) {
        if (dropped[at(p)] != 0) continue;
        const std::int64_t count = places_[at(p)].count;
        if (count == 0) continue;
        std::byte* errors = errors_of(p);
        add_floats(memory_of(p), errors, count, b.what.type);
        std::memset(errors, 0, static_cast<std::size_t>(count) * size_of(b.what.type));
    }
}

// Moves the gradients that are sent towards the front, in their order in memory, so none of them is overwritten.
void bucket_set::close_up(bucket& b, std::span<const char> dropped) noexcept {
    const std::size_t element = size_of(b.what.type);
    b.travelling = 0;
    for (int p : b.what.parameters) {
        place& from = places_[at(p)];
        from.dropped = dropped[at(p)] != 0;
        if (from.dropped) continue;
        if (b.travelling != from.offset)
            std::memmove(b.data + static_cast<std::size_t>(b.travelling) * element, memory_of(p),
                         static_cast<std::size_t>(from.count) * element);
        b.travelling += from.count;
    }
}

void bucket_set::spread_out(bucket& b) noexcept {
    if (b.travelling == b.what.count) return;
    const std::size_t element = size_of(b.what.type);
    std::int64_t end = b.travelling;
    for (auto p = b.what.parameters.rbegin(); p != b.what.parameters.rend(); ++p) {
        const place& to = places_[at(*p)];
        const std::size_t bytes = static_cast<std::size_t>(to.count) * element;
        if (!to.dropped) end -= to.count;
        if (!to.dropped && end != to.offset)
            std::memmove(memory_of(*p), b.data + static_cast<std::size_t>(end) * element, bytes);
        if (to.dropped) std::memset(memory_of(*p), 0, bytes);
    }
}

// One test() progresses all calls of its communicator.
bool bucket_set::poll() {
    bool all = true;
    for (const communicator* comm : comms_)
        for (int i = completed_; i < started_; ++i) {
            bucket& b = buckets_[at(i)];
            if (b.comm != comm || b.complete) continue;
            const bool complete = b.sparse != nullptr ? b.sparse->test() : b.call.test();
            all &= complete;
            if (!complete) break;
            set_complete(i);
        }
    while (completed_ < started_ && buckets_[at(completed_)].complete) ++completed_;
    return all;
}

// Counts a started bucket. Buckets that are in flight together have different tracks.
void bucket_set::begin_slice(bucket& b) {
    clock_->started();
    if (!clock_->is_traced()) return;
    b.began = iteration_clock::now();
    b.track = static_cast<std::size_t>(std::find(busy_tracks_.begin(), busy_tracks_.end(), 0) - busy_tracks_.begin());
    if (b.track == busy_tracks_.size()) busy_tracks_.push_back(0);
    busy_tracks_[b.track] = 1;
}

void bucket_set::set_complete(int index) {
    bucket& b = buckets_[at(index)];
    b.complete = true;
    clock_->completed();
    if (!clock_->is_traced()) return;
    busy_tracks_[b.track] = 0;
    clock_->slice(fmt::format("buckets in flight, {}", b.track + 1),
                  fmt::format("bucket {}, {} gradients, {} bytes", index, b.what.parameters.size(), b.what.bytes()),
                  b.began, iteration_clock::now());
}

void bucket_set::wait(int index) {
    bucket& b = buckets_[at(index)];
    while (comms_.size() > 1 && !b.complete) {  // progresses the calls of all communicators
        poll();
        if (!b.complete) std::this_thread::yield();
    }
    if (!b.complete) {
        if (b.sparse != nullptr) b.sparse->wait();
        b.call.wait();
        set_complete(index);
    }
    if (b.skipped) return;
    if (b.sparse != nullptr) {
        marks_ = b.sparse->marks();
        b.sparse->merge();
        return;
    }
    marks_ = {is_set(b.data, b.travelling, b.what.type), is_set(b.data, b.travelling + 1, b.what.type)};
    spread_out(b);
}

}  // namespace terrace::detail
