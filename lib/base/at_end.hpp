#pragma once

#include <utility>

namespace terrace::detail {

/// Runs an action at the end of a scope, also if an exception leaves the scope. The action must not throw.
template <class Action>
class [[nodiscard]] at_end {
public:
    explicit at_end(Action action) : action_(std::move(action)) {}
    at_end(const at_end&) = delete;
    at_end& operator=(const at_end&) = delete;
    ~at_end() { action_(); }

private:
    Action action_;
};

}  // namespace terrace::detail
