#include <terrace/elastic.hpp>
#include <terrace/gradients.hpp>

#include <utility>

#include "base/keep_for_ever.hpp"
#include "gradients/reducer_core.hpp"

namespace terrace {

using namespace detail;

namespace {

std::vector<communicator*> expect_some(std::span<communicator* const> comms) {
    for (const communicator* comm : comms)
        if (comm == nullptr) throw usage_error("gradient_reducer: a communicator is null");
    if (comms.empty()) throw usage_error("gradient_reducer: there is no communicator; pass at least one");
    return {comms.begin(), comms.end()};
}

// Destroys a core, or keeps it if it is broken: a network may then still read or write the memory of calls.
void end(std::unique_ptr<reducer_core> core) {
    if (core && core->is_broken()) keep_for_ever(std::move(core));
}

}  // namespace

local_iterations::local_iterations(std::shared_ptr<int> guards) noexcept : guards_(std::move(guards)) { ++*guards_; }
local_iterations::~local_iterations() {
    if (guards_) --*guards_;
}

gradient_reducer::gradient_reducer(communicator& comm, std::vector<gradient_parameter> parameters,
                                   const gradient_options& o)
    : core_(std::make_unique<reducer_core>(std::vector{&comm}, std::move(parameters), o)) {}
gradient_reducer::gradient_reducer(std::span<communicator* const> comms, std::vector<gradient_parameter> parameters,
                                   const gradient_options& o)
    : core_(std::make_unique<reducer_core>(expect_some(comms), std::move(parameters), o)) {}
gradient_reducer::gradient_reducer(gradient_reducer&&) noexcept = default;
gradient_reducer& gradient_reducer::operator=(gradient_reducer&& other) noexcept {
    end(std::exchange(core_, std::move(other.core_)));
    return *this;
}
gradient_reducer::~gradient_reducer() { end(std::move(core_)); }

void* gradient_reducer::gradient(int parameter, element_type type) { return core_->gradient(parameter, type); }
void gradient_reducer::set_gradient(int parameter, void* gradient) { core_->set_gradient(parameter, gradient); }
std::int64_t gradient_reducer::count(int parameter) const { return core_->known(parameter).count; }
void gradient_reducer::set_weight(double weight) { core_->set_weight(weight); }
void gradient_reducer::drop(std::span<const int> parameters) { core_->drop(parameters); }
void gradient_reducer::drop(std::span<const int> parameters, int root) { core_->drop(parameters, root); }
void gradient_reducer::forward_done(std::span<const int> used) { core_->forward_done(used); }
void gradient_reducer::ready(int parameter) { core_->ready(parameter); }
void gradient_reducer::ready(int parameter, std::span<const std::int64_t> rows, const void* values,
                             std::size_t elements, element_type type) {
    core_->ready(parameter, rows, values, elements, type);
}
std::pair<std::span<const std::int64_t>, const void*> gradient_reducer::rows(int parameter, element_type type) const {
    const row_exchange& sparse = core_->sparse(parameter, type);
    return {sparse.rows(), sparse.values()};
}
std::int64_t gradient_reducer::row(int parameter) const { return core_->known(parameter).row; }
bool gradient_reducer::was_dense(int parameter) const { return core_->was_dense(parameter); }
bool gradient_reducer::poll() { return core_->poll(); }
void gradient_reducer::finish() { core_->finish(); }
void gradient_reducer::join(const std::function<void()>& after_each) { core_->join(after_each); }
// Destroys the old core, though it is broken: its communicator is gone, so UCX no longer uses memory of its calls.
void gradient_reducer::move_to(elastic& job) {
    core_->give_up();
    core_ = std::make_unique<reducer_core>(std::vector{&job.comm()}, core_->parameter_list(), core_->settings());
}
local_iterations gradient_reducer::no_sync() { return local_iterations(core_->guards()); }
void gradient_reducer::broadcast(std::span<const state_tensor> tensors, int root) { core_->broadcast(tensors, root); }
gradient_times gradient_reducer::statistics() { return core_->statistics(); }
int gradient_reducer::buckets() const noexcept { return core_->buckets(); }
int gradient_reducer::rebuilds() const noexcept { return core_->rebuilds(); }
int gradient_reducer::bucket_of(int parameter) const { return core_->bucket_of(parameter); }

}  // namespace terrace
