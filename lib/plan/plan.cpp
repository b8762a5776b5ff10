#include <terrace/plan.hpp>

#include "plan/plan_access.hpp"
#include "plan/plan_yaml.hpp"

namespace terrace {

using namespace detail;

plan::plan(std::shared_ptr<const plan_data> data) noexcept : data_(std::move(data)) {}
plan plan::load(const std::filesystem::path& file) { return to_plan(read_plan(file)); }

const std::string& plan::name() const noexcept { return data_->name; }
int plan::ranks() const noexcept { return data_->machine.ranks(); }
const std::string& plan::id() const noexcept { return data_->id; }

}  // namespace terrace
