#include <terrace/elastic.hpp>

#include <utility>

#include "api/elastic/elastic_core.hpp"
#include "api/elastic/ucx_generation.hpp"

namespace terrace {

using namespace detail;

elastic::elastic(std::unique_ptr<elastic_core> core) noexcept : core_(std::move(core)) {}
elastic::elastic(elastic&&) noexcept = default;
elastic& elastic::operator=(elastic&&) noexcept = default;
elastic::~elastic() = default;

elastic elastic::begin(const store& in, int founders, const options& o) {
    return elastic(std::make_unique<elastic_core>(in, founders, o));
}
elastic elastic::begin(int founders, const options& o) { return begin(store_of(o), founders, o); }
elastic elastic::join(const store& in, const options& o) { return elastic(std::make_unique<elastic_core>(in, o)); }
elastic elastic::join(const options& o) { return join(store_of(o), o); }

bool elastic::iterate(const std::function<void(communicator&)>& work) { return core_->iterate(work); }
void elastic::on_change(std::function<void(communicator&)> synchronise) { core_->on_change(std::move(synchronise)); }
void elastic::leave() { core_->leave(); }
bool elastic::is_member() const noexcept { return core_->is_member(); }
communicator& elastic::comm() { return core_->comm(); }
const std::vector<int>& elastic::members() const noexcept { return core_->now().numbers; }
std::uint64_t elastic::generation() const noexcept { return core_->now().generation; }
std::uint64_t elastic::iterations() const noexcept { return core_->now().iterations; }

}  // namespace terrace
