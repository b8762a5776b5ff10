// An iteration, from the first ready() to the end of finish(). All ranks make the same calls in the same order:
//
//   sum of weights (if weighted), bucket 0, bucket 1, ..., used parameters (if not known), last bucket
//
// Then, if the marks of the last bucket require that: the parameters that ranks lack, or a new order.

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "gradients/reducer_core.hpp"

namespace terrace::detail {

void reducer_core::begin(bool joined) {
    if (under_way_) return;
    under_way_ = true;
    joined_ = joined;
    local_ = !joined && *guards_ > 0;
    if (local_) return;
    std::fill(pending_.begin(), pending_.end(), 0);
    for (const auto& each : sparse_)
        if (each) each->clear_result();
    for (int p = 0; p < parameters(); ++p) {
        if (dropped_[at(p)] != 0) states_[at(p)] = state::dropped;
        else ++pending_[at(buckets_.bucket_of(p))];
    }
    for (int b = 0; b < buckets_.size(); ++b)
        if (pending_[at(b)] > 0) last_ = b;
    if (options_.weighted) or_break([&] { weights_.start(comm(), joined ? 0 : weight_); });
    for (int p = 0; p < parameters() && used_.is_fixed() && !joined; ++p)
        if (states_[at(p)] == state::awaited && !used_.expects(p)) contribute(p, state::unused);
}

void reducer_core::forward_done(std::span<const int> used) {
    const auto counted = clock_.inside();
    expect_unbroken();
    for (int p : used) known(p);
    if (forward_is_done_) throw usage_error("forward_done: called already in this iteration; call finish() first");
    for (int p = 0; p < parameters() && !local_; ++p)
        if (states_[at(p)] == state::ready && std::find(used.begin(), used.end(), p) == used.end())
            throw usage_error(fmt::format("forward_done: \"{}\" is ready, and not among those that are used",
                                          parameters_[at(p)].name));
    begin();
    forward_is_done_ = true;
    for (int p : used) declared_[at(p)] = 1;
    if (local_ || options_.unused != unused_parameters::find) return;
    for (int p = 0; p < parameters(); ++p)
        if (states_[at(p)] == state::awaited && declared_[at(p)] == 0)
            contribute(p, used_.has(p) ? state::ready : state::unused);
    move_along();
}

void reducer_core::ready(int parameter) {
    const auto counted = clock_.inside();
    if (known(parameter).row > 0)
        throw usage_error(
            fmt::format("ready: \"{}\" is sparse; pass its rows and their values", parameters_[at(parameter)].name));
    say_ready(parameter);
}

void reducer_core::ready(int parameter, std::span<const std::int64_t> rows, const void* values, std::size_t elements,
                         element_type type) {
    const auto counted = clock_.inside();
    const gradient_parameter& p = known(parameter);
    expect_unbroken();
    if (p.row == 0 || p.type != type || elements != rows.size() * static_cast<std::size_t>(p.row))
        throw usage_error(fmt::format(
            "ready: {} rows with {} values of {} are not the gradient of \"{}\", which is {} and has {} {} in a row",
            rows.size(), elements, to_string(type), p.name, p.row == 0 ? "dense" : "sparse", p.row, to_string(p.type)));
    expect_awaited(parameter);
    sparse_[at(parameter)]->add(rows, values);
    say_ready(parameter);
}

void reducer_core::say_ready(int parameter) {
    expect_awaited(parameter);
    used_.add(parameter);
    if (local_) {
        states_[at(parameter)] = state::ready;
        return;
    }
    trace_.saw(parameter);
    clock_.gradient_is_ready(parameters_[at(parameter)].name);
    contribute(parameter, state::ready);
    move_along();
}

void reducer_core::expect_awaited(int parameter) {
    const gradient_parameter& p = parameters_[at(parameter)];
    expect_unbroken();
    begin();
    switch (states_[at(parameter)]) {
        case state::awaited: break;
        case state::ready:
            throw usage_error(fmt::format(
                "ready: \"{}\" is ready already; say so once in an iteration, and end it by finish()", p.name));
        case state::unused:
            throw usage_error(fmt::format("ready: \"{}\" was said not to be used, by {}", p.name,
                                          forward_is_done_ ? "forward_done()" : "the first iteration"));
        case state::dropped: throw usage_error(fmt::format("ready: \"{}\" is dropped in this iteration", p.name));
    }
}

void reducer_core::contribute(int parameter, state as) {
    const gradient_parameter& p = parameters_[at(parameter)];
    std::byte* in_bucket = buckets_.memory_of(parameter);
    states_[at(parameter)] = as;
    --pending_[at(buckets_.bucket_of(parameter))];
    if (bytes_of(p) == 0) return;
    if (as == state::ready) {
        if (p.gradient != nullptr) std::memcpy(in_bucket, p.gradient, bytes_of(p));
        return;
    }
    if (p.gradient == nullptr && used_.may_differ())
        std::memcpy(&kept_[kept_offset_[at(parameter)]], in_bucket, bytes_of(p));
    std::memset(in_bucket, 0, bytes_of(p));
}

// Starts full buckets in order. The last bucket carries the marks, since this rank then knows the whole iteration.
void reducer_core::start_full_buckets() {
    for (; next_ < buckets_.size() && pending_[at(next_)] == 0; ++next_) {
        if (next_ > 0 && !buckets_.lets_next_start(next_ - 1)) return;
        if (next_ > last_ || buckets_.is_dropped(next_, dropped_)) {
            buckets_.skip(next_);
            continue;
        }
        if (options_.weighted && !weights_.test()) return;
        bucket_marks marks;
        if (next_ == last_) {
            used_.start(comm());
            marks.lacks_gradient = lacking_ >= 0;
            marks.asks_for_order = comm().rank() == 0 && !joined_ &&
                                   std::count(dropped_.begin(), dropped_.end(), 1) == 0 && asks_for_change();
        }
        buckets_.start(next_, options_.weighted ? reduce_op::sum : options_.op, marks, dropped_,
                       options_.weighted ? weights_.share() : 1);
    }
}

void reducer_core::move_along() {
    or_break([&] {
        start_full_buckets();
        buckets_.poll();
    });
}

bool reducer_core::poll() {
    const auto counted = clock_.inside();
    expect_unbroken();
    bool all = false;
    or_break([&] {
        if (under_way_ && !local_) start_full_buckets();
        all = buckets_.poll();
    });
    return all;
}

void reducer_core::finish() {
    expect_unbroken();
    begin();
    if (local_) return end(false);
    finish_synchronised();
}

void reducer_core::join(const std::function<void()>& after_each) {
    expect_between("join");
    if (!options_.weighted) throw usage_error("join: set gradient_options::weighted, on all ranks");
    for (;;) {
        begin(true);
        or_break([&] { weights_.wait(); });
        if (weights_.total() == 0) return end(false);
        finish_synchronised();
        if (after_each) after_each();
    }
}

void reducer_core::finish_synchronised() {
    clock_.finishing();
    contribute_rest();
    or_break([&] {
        if (options_.weighted) weights_.wait();
        for (start_full_buckets(); next_ < buckets_.size(); start_full_buckets())
            buckets_.wait_for_next_start(next_ - 1);
        for (int b = 0; b < buckets_.size(); ++b) {
            buckets_.wait(b);
            for (int p : buckets_.layout(b).parameters)
                if (states_[at(p)] == state::ready) copy_out(p);
        }
        treat_unused();
    });
    const bucket_marks all = buckets_.marks();
    const int lacking = lacking_;
    end(!all.lacks_gradient);
    if (all.lacks_gradient) report(lacking);
    if (all.asks_for_order) or_break([&] { rebuild(); });
    trace_.restart();
    clock_.finished();
}

// Contributes zeros in place of missing gradients, so no other rank waits for them.
void reducer_core::contribute_rest() {
    for (int p = 0; p < parameters(); ++p) {
        if (states_[at(p)] != state::awaited) continue;
        const bool expected = used_.is_fixed() || !used_.may_differ() || declared_[at(p)] != 0;
        if (used_.may_differ() && used_.has(p)) {  // in an earlier local iteration
            contribute(p, state::ready);
            continue;
        }
        if (expected && !joined_ && lacking_ < 0) lacking_ = p;
        contribute(p, state::unused);
    }
}

void reducer_core::copy_out(int parameter) noexcept {
    const gradient_parameter& to = parameters_[at(parameter)];
    if (to.gradient != nullptr && bytes_of(to) > 0)
        std::memcpy(to.gradient, buckets_.memory_of(parameter), bytes_of(to));
}

// Copies out the result of an unused gradient if another rank uses it. Otherwise the gradient keeps its old value.
void reducer_core::treat_unused() {
    used_.wait();
    for (int p = 0; p < parameters(); ++p) {
        if (states_[at(p)] != state::unused) continue;
        const gradient_parameter& each = parameters_[at(p)];
        if (!used_.may_differ() || used_.anywhere(p)) copy_out(p);
        else if (each.gradient == nullptr && bytes_of(each) > 0)
            std::memcpy(buckets_.memory_of(p), &kept_[kept_offset_[at(p)]], bytes_of(each));
    }
}

void reducer_core::end(bool settle) {
    std::fill(states_.begin(), states_.end(), state::awaited);
    std::fill(declared_.begin(), declared_.end(), 0);
    if (!local_) {
        std::fill(dropped_.begin(), dropped_.end(), 0);
        used_.restart(settle);
        for (const auto& each : sparse_)
            if (each) each->forget();
        buckets_.restart();
    }
    next_ = 0;
    last_ = lacking_ = -1;
    under_way_ = local_ = joined_ = forward_is_done_ = false;
}

// Throws the error of a missing gradient. All ranks call this function, and none of them has a call in flight.
void reducer_core::report(int lacking) {
    trace_.restart();
    clock_.finished();
    std::vector<int> all(at(comm().size()));
    or_break([&] { comm().allgather(std::span(&lacking, 1), all); });
    const auto first = std::find_if(all.begin(), all.end(), [](int p) { return p >= 0; });
    throw usage_error(fmt::format(
        "finish: rank {} has no gradient of parameter {}, \"{}\"; call ready() for each parameter before finish()",
        first - all.begin(), *first, parameters_[at(*first)].name));
}

}  // namespace terrace::detail
