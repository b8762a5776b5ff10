#include <terrace/communicator.hpp>

#include "api/core.hpp"

namespace terrace {

communicator::communicator(std::unique_ptr<core> c) noexcept : core_(std::move(c)) {}
communicator::communicator(communicator&&) noexcept = default;
communicator& communicator::operator=(communicator&&) noexcept = default;
communicator::~communicator() = default;

int communicator::rank() const noexcept { return core_->rank(); }
int communicator::size() const noexcept { return core_->size(); }

void communicator::allreduce(void* data, std::int64_t count, element_type type, reduce_op op) {
    core_->allreduce(data, data, count, type, op);
}

std::string communicator::shape(std::int64_t bytes) const { return core_->shape(bytes); }

}  // namespace terrace
