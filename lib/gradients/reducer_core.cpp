#include "gradients/reducer_core.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "gradients/bucket_sizes.hpp"
#include "gradients/parameters.hpp"

namespace terrace::detail {

namespace {

std::size_t bytes_of(const state_tensor& t) noexcept { return static_cast<std::size_t>(t.count) * size_of(t.type); }

void broadcast_fused(communicator& comm, std::span<const state_tensor> tensors, int root,
                     std::vector<std::byte>& pack) {
    std::size_t size = 0;
    for (const state_tensor& t : tensors) size += bytes_of(t);
    pack.resize(size);
    std::byte* to = pack.data();
    for (const state_tensor& t : tensors) {
        if (comm.rank() == root && t.count > 0) std::memcpy(to, t.data, bytes_of(t));
        to += bytes_of(t);
    }
    comm.broadcast(pack, root);
    const std::byte* from = pack.data();
    for (const state_tensor& t : tensors) {
        if (comm.rank() != root && t.count > 0) std::memcpy(t.data, from, bytes_of(t));
        from += bytes_of(t);
    }
}

// Copies the tensors of rank `root` to all ranks, which have the same tensors. Small tensors are packed into messages
// of at most `fused_bytes`; larger ones are sent one by one.
void broadcast_state(communicator& comm, std::span<const state_tensor> tensors, int root, std::int64_t fused_bytes) {
    const auto most = static_cast<std::size_t>(fused_bytes);
    std::vector<std::byte> pack;
    for (std::size_t begin = 0, end = 0; begin < tensors.size(); begin = end) {
        std::size_t size = 0;
        while (end < tensors.size() && size + bytes_of(tensors[end]) <= most) size += bytes_of(tensors[end++]);
        if (end > begin + 1) {
            broadcast_fused(comm, tensors.subspan(begin, end - begin), root, pack);
            continue;
        }
        end = begin + 1;
        comm.broadcast(tensors[begin].data, tensors[begin].count, tensors[begin].type, root);
    }
}

constexpr int usual_iteration = 3;  // from 0: earlier iterations make programs, and are slower

std::vector<std::unique_ptr<row_exchange>> sparse_of(const std::vector<gradient_parameter>& parameters,
                                                     const gradient_options& o) {
    std::vector<std::unique_ptr<row_exchange>> all(parameters.size());
    for (std::size_t p = 0; p < all.size(); ++p)
        if (parameters[p].row > 0) all[p] = std::make_unique<row_exchange>(parameters[p], o);
    return all;
}

gradient_options sizes_of(gradient_options o) {
    if (o.bucket_bytes != gradient_options::automatic) return o;
    o.bucket_bytes = gradient_options().bucket_bytes;
    o.first_bucket_bytes = gradient_options().first_bucket_bytes;
    return o;
}

}  // namespace

reducer_core::reducer_core(std::vector<communicator*> comms, std::vector<gradient_parameter> parameters,
                           const gradient_options& o)
    : comms_(std::move(comms)),
      parameters_(std::move(parameters)),
      options_(o),
      sizes_(sizes_of(o)),
      seeks_sizes_(o.bucket_bytes == gradient_options::automatic),
      trace_(
          (expect_same_lines(comm(), "gradient_reducer", describe(parameters_, o)), reverse_order(parameters_.size()))),
      sparse_(sparse_of(parameters_, o)),
      buckets_(comms_, parameters_, sparse_, clock_, lay_out(parameters_, reverse_order(parameters_.size()), sizes_),
               options_),
      used_(parameters_.size(), o.unused),
      states_(parameters_.size()),
      declared_(parameters_.size()),
      dropped_(parameters_.size()),
      kept_offset_(parameters_.size()),
      pending_(parameters_.size()) {
    clock_.trace_to(comm());
    std::size_t bytes = 0;
    for (std::size_t p = 0; p < parameters_.size() && used_.may_differ(); ++p) {
        kept_offset_[p] = bytes;
        if (parameters_[p].gradient == nullptr) bytes += bytes_of(parameters_[p]);
    }
    kept_.resize(bytes);
    end(false);
}

const gradient_parameter& reducer_core::known(int parameter) const {
    if (parameter < 0 || parameter >= parameters())
        throw usage_error(fmt::format("gradient_reducer: there is no parameter {}; there are {}, numbered from 0",
                                      parameter, parameters()));
    return parameters_[at(parameter)];
}

void reducer_core::expect_between(const char* call) const {
    expect_unbroken();
    if (under_way_) throw usage_error(fmt::format("{}: an iteration is under way; call finish() first", call));
}

void* reducer_core::gradient(int parameter, element_type type) {
    const gradient_parameter& p = known(parameter);
    if (p.type != type)
        throw usage_error(fmt::format("gradient: parameter \"{}\" is of type {}, not {}", p.name, to_string(p.type),
                                      to_string(type)));
    if (p.row > 0) throw usage_error(fmt::format("gradient: \"{}\" is sparse; use rows()", p.name));
    return p.gradient != nullptr ? p.gradient : buckets_.memory_of(parameter);
}

void reducer_core::set_gradient(int parameter, void* gradient) {
    const gradient_parameter& p = known(parameter);
    if (p.gradient == nullptr || gradient == nullptr)
        throw usage_error(
            fmt::format("set_gradient: {} \"{}\"; a gradient is in its bucket for good, or at an address "
                        "of the caller's for good",
                        p.gradient == nullptr ? "a bucket holds the gradient of" : "null for", p.name));
    if (states_[at(parameter)] == state::ready && !local_)
        throw usage_error(fmt::format("set_gradient: \"{}\" is in use until finish()", p.name));
    parameters_[at(parameter)].gradient = gradient;
}

const row_exchange& reducer_core::sparse(int parameter, element_type type) const {
    const gradient_parameter& p = known(parameter);
    if (p.row == 0) throw usage_error(fmt::format("rows: \"{}\" is dense; use gradient()", p.name));
    if (p.type != type)
        throw usage_error(
            fmt::format("rows: parameter \"{}\" is of type {}, not {}", p.name, to_string(p.type), to_string(type)));
    return *sparse_[at(parameter)];
}

void reducer_core::set_weight(double weight) {
    expect_between("set_weight");
    if (!options_.weighted) throw usage_error("set_weight: set gradient_options::weighted, on all ranks");
    if (!(weight > 0) || !std::isfinite(weight))
        throw usage_error(fmt::format("set_weight: the weight is {}; pass one above 0, or join()", weight));
    weight_ = weight;
}

void reducer_core::drop(std::span<const int> dropped) {
    expect_between("drop");
    for (int p : dropped) known(p);
    std::fill(dropped_.begin(), dropped_.end(), 0);
    for (int p : dropped) dropped_[at(p)] = 1;
}

void reducer_core::drop(std::span<const int> dropped, int root) {
    expect_between("drop");
    constexpr char refused = 2;  // reported to the other ranks, so they do not wait
    const bool wrong = std::any_of(dropped.begin(), dropped.end(), [&](int p) { return p < 0 || p >= parameters(); });
    if (comm().rank() == root && !wrong) drop(dropped);
    if (comm().rank() == root && wrong) std::fill(dropped_.begin(), dropped_.end(), refused);
    or_break([&] { comm().broadcast(dropped_, root); });
    if (std::count(dropped_.begin(), dropped_.end(), refused) == 0) return;
    std::fill(dropped_.begin(), dropped_.end(), 0);
    throw usage_error(fmt::format("drop: rank {} names a parameter that there is not; there are {}, numbered from 0",
                                  root, parameters()));
}

void reducer_core::broadcast(std::span<const state_tensor> tensors, int root) {
    expect_between("broadcast");
    expect_same_lines(comm(), "broadcast", describe(tensors, root, comm().size()));
    or_break([&] { broadcast_state(comm(), tensors, root, sizes_.bucket_bytes); });
}

gradient_times reducer_core::statistics() {
    expect_between("statistics");
    if (!clock_.any()) throw usage_error("statistics: no iteration has been reduced yet");
    gradient_times times = clock_.last();
    double least = times.exposed;
    or_break([&] { comm().allreduce(std::span(&least, 1), exact(reduce_op::min)); });
    times.waiting = times.exposed - least;
    return times;
}

// Returns true if the buckets should change. Called by rank 0, after all gradients of the iteration are ready.
bool reducer_core::asks_for_change() {
    if (seeks_sizes_ && trace_.iterations() >= usual_iteration) return true;
    return trace_.asks_for_change(buckets(), [this](int p) { return buckets_.bucket_of(p); });
}

// Makes new buckets, on all ranks together. Moves the results of the iteration to their new places.
void reducer_core::rebuild() {
    std::vector<int> order = trace_.proposal();
    if (seeks_sizes_ && comm().rank() == 0 && trace_.iterations() >= usual_iteration) {
        sizes_ = sizes_that_end_first(parameters_, order, trace_.ready_times(), sizes_,
                                      [this](std::int64_t bytes) { return comm().predicted(bytes); });
        seeks_sizes_ = false;
    }
    if (options_.bucket_bytes == gradient_options::automatic) {
        std::array<std::int64_t, 2> sizes{sizes_.bucket_bytes, sizes_.first_bucket_bytes};
        comm().broadcast(std::span(sizes), 0);
        sizes_.bucket_bytes = sizes[0];
        sizes_.first_bucket_bytes = sizes[1];
    }
    comm().broadcast(order, 0);
    bucket_set made(comms_, parameters_, sparse_, clock_, lay_out(parameters_, order, sizes_), options_);
    for (int p = 0; p < parameters(); ++p) made.copy_from(buckets_, p);
    buckets_ = std::move(made);
    trace_.follow(order);
    ++rebuilds_;
}

}  // namespace terrace::detail
