#include <terrace/plan.hpp>

#include "plan/plan_yaml.hpp"

namespace terrace {

plan plan::load(const std::filesystem::path& file) { return plan(std::make_shared<const recipe>(read_plan(file))); }

const std::string& plan::name() const noexcept { return recipe_->name; }
int plan::ranks() const noexcept { return recipe_->machine.ranks(); }
const std::string& plan::id() const noexcept { return recipe_->id; }

}  // namespace terrace
