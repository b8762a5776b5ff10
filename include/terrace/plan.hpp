#pragma once

#include <terrace/export.hpp>

#include <filesystem>
#include <memory>
#include <string>

namespace terrace {

namespace detail {
struct plan_access;
struct plan_data;
}  // namespace detail

/// The instructions that a communicator follows: the levels of a machine, and the stages to run for each collective and
/// message size. Made by `terrace plan`. Immutable; copies share their data. Any number of communicators and threads
/// may use one plan at a time.
class TERRACE_API plan {
public:
    /// Reads a plan file.
    /// @throws input_error if the file is missing, larger than 8 MiB, not a plan of this version, or inconsistent
    static plan load(const std::filesystem::path& file);

    /// Returns the name of the machine that the plan was made for.
    const std::string& name() const noexcept;
    /// Returns the number of ranks that a communicator must have to run the plan.
    int ranks() const noexcept;
    /// Returns "xxh3:<16 hex digits>", a hash (XXH3, 64 bits) of the whole plan in normalised form: equal for equal
    /// plans.
    const std::string& id() const noexcept;

private:
    friend struct detail::plan_access;
    explicit plan(std::shared_ptr<const detail::plan_data> data) noexcept;

    std::shared_ptr<const detail::plan_data> data_;
};

}  // namespace terrace
