#pragma once

#include <string>

#include <terrace/error.hpp>

namespace terrace::detail {

/// Returns the message of the error that `call` throws, or "accepted". Errors of other types than `Error` pass.
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
