#include "gradients/bucket_set.hpp"

#include <thread>

#include "base/element_types.hpp"

namespace terrace::detail {

namespace {

constexpr std::size_t cache_line = 64;

void store(std::byte* data, std::int64_t index, element_type type, float value) noexcept {
    with_type(type, [&]<class T>(std::type_identity<T>) { reinterpret_cast<T*>(data)[index] = static_cast<T>(value); });
}

bool is_set(const std::byte* data, std::int64_t index, element_type type) noexcept {
    return with_type(type, [&]<class T>(std::type_identity<T>) {
        if constexpr (is_complex<T>) return false;  // parameters are real: parameters.cpp
        else return static_cast<float>(reinterpret_cast<const T*>(data)[index]) > 0;
    });
}

}  // namespace

bucket_set::bucket_set(std::vector<communicator*> comms, std::span<const gradient_parameter> parameters,
                       std::vector<bucket_layout> layout)
    : comms_(std::move(comms)), places_(parameters.size()) {
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
            places_[at(p)] = {size(), offset};
            offset += parameters[at(p)].count * static_cast<std::int64_t>(size_of(what.type));
        }
        bucket& b = buckets_.emplace_back();
        b.data = next[c];
        b.comm = comms_[c];
        next[c] += room_for(what);
        b.what = std::move(what);
    }
}

std::size_t bucket_set::room_for(const bucket_layout& what) noexcept {
    const std::size_t bytes = static_cast<std::size_t>(what.count + marks_of_bucket) * size_of(what.type);
    return (bytes + cache_line - 1) / cache_line * cache_line;
}

std::byte* bucket_set::memory_of(int parameter) const noexcept {
    const place& p = places_[at(parameter)];
    return buckets_[at(p.bucket)].data + p.offset;
}

void bucket_set::start(int index, reduce_op op, const bucket_marks& marks) {
    bucket& b = buckets_[at(index)];
    store(b.data, b.what.count, b.what.type, marks.lacks_gradient ? 1 : 0);
    started_ = index + 1;
    b.call = b.comm->allreduce_async(b.data, b.data, b.what.count + marks_of_bucket, b.what.type, op);
}

bucket_marks bucket_set::marks(int index) const noexcept {
    const bucket& b = buckets_[at(index)];
    return {is_set(b.data, b.what.count, b.what.type)};
}

// test() of one request moves all calls of its communicator along.
bool bucket_set::poll(communicator& comm) {
    for (int i = completed_; i < started_; ++i) {
        bucket& b = buckets_[at(i)];
        if (b.comm != &comm || b.complete) continue;
        b.complete = b.call.test();
        if (!b.complete) return false;
    }
    return true;
}

bool bucket_set::poll() {
    bool all = true;
    for (communicator* comm : comms_) all &= poll(*comm);
    while (completed_ < started_ && buckets_[at(completed_)].complete) ++completed_;
    return all;
}

void bucket_set::wait(int index) {
    bucket& b = buckets_[at(index)];
    while (comms_.size() > 1 && !b.complete) {  // the calls on all of them are to move along
        poll();
        if (!b.complete) std::this_thread::yield();
    }
    if (!b.complete) b.call.wait();
    b.complete = true;
}

void bucket_set::restart() noexcept {
    for (bucket& b : buckets_) b.complete = false;
    started_ = completed_ = 0;
}

void bucket_set::abandon() noexcept {
    new std::vector(std::move(memory_));  // never deleted
}

}  // namespace terrace::detail
