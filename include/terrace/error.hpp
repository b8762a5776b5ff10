#pragma once

#include <stdexcept>
#include <string>

#include <terrace/export.hpp>

namespace terrace {

/// Base of every exception Terrace throws. what() says where, what and what to do next, in one line.
class TERRACE_API error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A file could not be read or says something invalid. what() begins with `file:line:column: `; line and column count
/// from 1 and are 0 where the file as a whole is meant (they are then left out of what()).
class TERRACE_API input_error : public error {
public:
    input_error(std::string file, int line, int column, const std::string& message);

    const std::string& file() const noexcept { return file_; }
    int line() const noexcept { return line_; }
    int column() const noexcept { return column_; }

private:
    std::string file_;
    int line_;
    int column_;
};

/// A plan does not fit: the communicator, another rank's plan, or itself. Names the field and both values.
class TERRACE_API plan_error : public error {
public:
    using error::error;
};

/// A call broke the contract of the function it called.
class TERRACE_API usage_error : public error {
public:
    using error::error;
};

/// A call ran past `options::timeout`. The communicator is broken from then on.
class TERRACE_API timeout_error : public error {
public:
    using error::error;
};

/// A library below Terrace reported an error. The communicator is broken from then on.
class TERRACE_API transport_error : public error {
public:
    /// @param library "mpi", ...   @param call the failing function   @param code the library's own error code
    transport_error(std::string library, std::string call, int code, const std::string& message);

    const std::string& library() const noexcept { return library_; }
    const std::string& call() const noexcept { return call_; }
    int code() const noexcept { return code_; }

private:
    std::string library_;
    std::string call_;
    int code_;
};

}  // namespace terrace
