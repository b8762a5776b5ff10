#pragma once

#include <terrace/export.hpp>

#include <stdexcept>
#include <string>

namespace terrace {

/// The base of every exception that Terrace throws. what() says in one line what happened, where, and what to do.
class TERRACE_API error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A file could not be read or says something invalid. what() begins with `file:line:column: `. Line and column count
/// from 1; they are 0, and left out of what(), if the error is of the file as a whole.
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

/// A plan does not fit the communicator, differs from another rank's plan, or contradicts itself. what() names the
/// field and both values.
class TERRACE_API plan_error : public error {
public:
    using error::error;
};

/// A call broke the contract of the function that it called, or calls differ between ranks.
class TERRACE_API usage_error : public error {
public:
    using error::error;
};

/// A call was not complete after `options::timeout`. The communicator is broken from then on. what() names the ranks
/// that this one was waiting for.
class TERRACE_API timeout_error : public error {
public:
    using error::error;
};

/// A library below Terrace reported an error. The communicator is broken from then on.
class TERRACE_API transport_error : public error {
public:
    /// @param library "mpi", "nccl", "cuda" ...   @param call the function that failed   @param code of the library
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
