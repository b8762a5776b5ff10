#include "tools/terrace/variables.hpp"

#include <algorithm>
#include <iterator>

#include <terrace/error.hpp>

#include "api/environment.hpp"
#include "pmpi/variables.hpp"

namespace terrace::detail {

std::vector<variable> all_variables() {
    std::vector<variable> all;
    std::ranges::merge(environment_variables(), pmpi::drop_in_variables(), std::back_inserter(all), {}, &variable::name,
                       &variable::name);
    return all;
}

std::vector<std::string> problems_of_variables(std::span<const std::string> environment) {
    std::vector<std::string> problems;
    const auto look = [&](const auto& check) {
        try {
            check();
        } catch (const error& e) {
            problems.push_back(e.what());
        }
    };
    look([&] { options_from(environment, problems); });
    look([&] { std::ranges::move(pmpi::check_drop_in_variables(environment), std::back_inserter(problems)); });
    return problems;
}

}  // namespace terrace::detail
