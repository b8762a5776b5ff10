#pragma once

#include <string>

#include <terrace/error.hpp>

namespace terrace::detail {

/// Returns the message of the `Error` that `call` throws, or "accepted". Does not catch other exceptions.
template <class Error = error, class Call>
std::string refusal_of(const Call& call) {
    try {
        call();
    } catch (const Error& e) {
        return e.what();
    }
    return "accepted";
}

}  // namespace terrace::detail
