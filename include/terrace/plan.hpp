#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <terrace/export.hpp>

namespace terrace {

struct recipe;

/// What a communicator acts on: the levels of a machine, and per collective and message size the stages to run. Made
/// by `terrace plan`. Immutable; copies share one recipe, and any number of communicators and threads may use it.
class TERRACE_API plan {
public:
    /// Reads a plan file.
    /// @throws input_error if the file is missing, larger than 8 MiB, not a plan of this version, or inconsistent
    static plan load(const std::filesystem::path& file);

    /// The name of the machine the plan was made for.
    const std::string& name() const noexcept;
    /// Ranks a communicator must have to run the plan.
    int ranks() const noexcept;
    /// "xxh3:<16 hex digits>" over the whole plan in normalised form: equal for equal plans.
    const std::string& id() const noexcept;

    /// For Terrace's own parts.
    explicit plan(std::shared_ptr<const recipe> r) noexcept : recipe_(std::move(r)) {}
    const recipe& get() const noexcept { return *recipe_; }

private:
    std::shared_ptr<const recipe> recipe_;
};

}  // namespace terrace
