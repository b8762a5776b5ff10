#include "gradients/reducer_core.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "gradients/parameters.hpp"
#include "gradients/state_broadcast.hpp"

namespace terrace::detail {

namespace {

std::size_t bytes_of(const gradient_parameter& p) noexcept {
    return static_cast<std::size_t>(p.count) * size_of(p.type);
}

}  // namespace

reducer_core::reducer_core(std::vector<communicator*> comms, std::vector<gradient_parameter> parameters,
                           const gradient_options& o)
    : comms_(std::move(comms)),
      parameters_(std::move(parameters)),
      options_(o),
      buckets_((expect_same_lines(*comms_.front(), "gradient_reducer", describe(parameters_, o)), comms_), parameters_,
               lay_out(parameters_, reverse_order(parameters_.size()), o)),
      is_ready_(parameters_.size()),
      pending_(at(buckets_.size())) {
    end();
}

reducer_core::~reducer_core() {
    if (broken_) buckets_.abandon();
}

const gradient_parameter& reducer_core::known(int parameter) const {
    if (parameter < 0 || at(parameter) >= parameters_.size())
        throw usage_error(fmt::format("gradient_reducer: there is no parameter {}; there are {}, numbered from 0",
                                      parameter, parameters_.size()));
    return parameters_[at(parameter)];
}

void reducer_core::expect_unbroken() const {
    if (broken_)
        throw usage_error("gradient_reducer: an earlier call failed, and the reducer is broken; make a new one");
}

// What another rank may wait for has not been done then.
template <class Action>
void reducer_core::or_break(Action action) {
    try {
        action();
    } catch (...) {
        broken_ = true;
        throw;
    }
}

void* reducer_core::gradient(int parameter, element_type type) {
    const gradient_parameter& p = known(parameter);
    if (p.type != type)
        throw usage_error(fmt::format("gradient: parameter \"{}\" is of type {}, not {}", p.name, to_string(p.type),
                                      to_string(type)));
    return p.gradient != nullptr ? p.gradient : buckets_.memory_of(parameter);
}

void reducer_core::set_gradient(int parameter, void* gradient) {
    const gradient_parameter& p = known(parameter);
    if (p.gradient == nullptr || gradient == nullptr)
        throw usage_error(
            fmt::format("set_gradient: {} \"{}\"; a gradient is in its bucket for good, or at an address "
                        "of the caller's for good",
                        p.gradient == nullptr ? "a bucket holds the gradient of" : "null for", p.name));
    if (is_ready_[at(parameter)] != 0 && !local_)
        throw usage_error(fmt::format("set_gradient: \"{}\" is in use until finish()", p.name));
    parameters_[at(parameter)].gradient = gradient;
}

int reducer_core::bucket_of(int parameter) const {
    known(parameter);
    return buckets_.bucket_of(parameter);
}

void reducer_core::begin() {
    if (!under_way_) local_ = *guards_ > 0;
    under_way_ = true;
}

void reducer_core::ready(int parameter) {
    const gradient_parameter& p = known(parameter);
    expect_unbroken();
    if (is_ready_[at(parameter)] != 0)
        throw usage_error(
            fmt::format("ready: \"{}\" is ready already; say so once in an iteration, and end it by finish()", p.name));
    begin();
    is_ready_[at(parameter)] = 1;
    if (local_) return;
    contribute(parameter, false);
    or_break([&] {
        start_full_buckets();
        buckets_.poll();
    });
}

void reducer_core::contribute(int parameter, bool zero) {
    const gradient_parameter& p = parameters_[at(parameter)];
    std::byte* in_bucket = buckets_.memory_of(parameter);
    if (p.count == 0) {
    } else if (zero) {
        std::memset(in_bucket, 0, bytes_of(p));
    } else if (p.gradient != nullptr) {
        std::memcpy(in_bucket, p.gradient, bytes_of(p));
    }
    --pending_[at(buckets_.bucket_of(parameter))];
}

// Only where the caller has called finish() may the last bucket start without all gradients, and marks say so.
void reducer_core::start_full_buckets() {
    for (; next_ < buckets_.size() && pending_[at(next_)] == 0; ++next_) {
        const bool last = next_ == buckets_.size() - 1;
        buckets_.start(next_, options_.op, {.lacks_gradient = last && lacking_ >= 0});
    }
}

bool reducer_core::poll() {
    expect_unbroken();
    bool all = false;
    or_break([&] { all = buckets_.poll(); });
    return all;
}

void reducer_core::finish() {
    expect_unbroken();
    begin();
    if (local_) return end();
    bucket_marks all;
    or_break([&] {
        lacking_ = complete_without_gradient();
        start_full_buckets();
        all = wait_for_all();
    });
    const int lacking = lacking_;
    end();
    if (all.lacks_gradient) report(lacking);
}

// Returns the first parameter that is not ready; -1 if all are. Zeros stand for gradients that are not ready, so that
// no other rank waits for them.
int reducer_core::complete_without_gradient() {
    int first = -1;
    for (int p = static_cast<int>(parameters_.size()) - 1; p >= 0; --p) {
        if (is_ready_[at(p)] != 0) continue;
        contribute(p, true);
        first = p;
    }
    return first;
}

bucket_marks reducer_core::wait_for_all() {
    for (int b = 0; b < buckets_.size(); ++b) {
        buckets_.wait(b);
        copy_out(b);
    }
    return buckets_.size() > 0 ? buckets_.marks(buckets_.size() - 1) : bucket_marks{};
}

void reducer_core::copy_out(int bucket) noexcept {
    for (int p : buckets_.layout(bucket).parameters) {
        const gradient_parameter& to = parameters_[at(p)];
        if (to.gradient != nullptr && to.count > 0) std::memcpy(to.gradient, buckets_.memory_of(p), bytes_of(to));
    }
}

void reducer_core::end() noexcept {
    std::fill(is_ready_.begin(), is_ready_.end(), 0);
    for (int b = 0; b < buckets_.size(); ++b) pending_[at(b)] = static_cast<int>(buckets_.layout(b).parameters.size());
    buckets_.restart();
    next_ = 0;
    lacking_ = -1;
    under_way_ = local_ = false;
}

// All ranks come here, and none of them has a call in flight.
void reducer_core::report(int lacking) {
    communicator& comm = *comms_.front();
    std::vector<int> all(at(comm.size()));
    or_break([&] { comm.allgather(std::span(&lacking, 1), all); });
    const auto first = std::find_if(all.begin(), all.end(), [](int p) { return p >= 0; });
    throw usage_error(fmt::format(
        "finish: rank {} has no gradient of parameter {}, \"{}\"; call ready() for each parameter before finish()",
        first - all.begin(), *first, parameters_[at(*first)].name));
}

void reducer_core::broadcast(std::span<const state_tensor> tensors, int root) {
    expect_unbroken();
    if (under_way_) throw usage_error("broadcast: an iteration is under way; call finish() first");
    communicator& comm = *comms_.front();
    expect_same_lines(comm, "broadcast", describe(tensors, root, comm.size()));
    or_break([&] { broadcast_state(comm, tensors, root, options_.bucket_bytes); });
}

}  // namespace terrace::detail
