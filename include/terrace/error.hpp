#pragma once

#include <terrace/export.hpp>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace terrace {

/// The base of the exceptions that Terrace throws. what() is one line: what happened, where, and what to do.
class TERRACE_API error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A file cannot be read or is invalid. what() begins with `file:line:column: `. Line and column count from 1; they are
/// 0, and missing from what(), if the error concerns the file as a whole.
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

/// A call violates the contract of its function, or calls differ between ranks.
class TERRACE_API usage_error : public error {
public:
    using error::error;
};

/// A call was not complete after `options::timeout`. The communicator is broken from then on. what() names the ranks
/// that this rank was waiting for.
class TERRACE_API timeout_error : public error {
public:
    using error::error;
};

/// The system has no memory for a call or a window. If a call needed the memory, the communicator is broken from then
/// on. what() has the size of the request and its purpose.
class TERRACE_API memory_error : public error {
public:
    /// @param bytes the size of the request   @param use its purpose: "a window"
    memory_error(std::size_t bytes, const std::string& use);

    std::size_t bytes() const noexcept { return bytes_; }

private:
    std::size_t bytes_;
};

/// How a rank has failed: its process has ended; it is stopped, as by SIGSTOP; or no message reaches it.
enum class failure : std::uint8_t { died, stopped, unreachable };

/// A rank that has failed.
struct failed_rank {
    int rank = 0;      ///< in the rank numbering of the communicator that throws
    std::string host;  ///< name of its host
    failure how = failure::died;
    std::string noticed;  ///< evidence of the failure: "its process has ended"

    friend bool operator==(const failed_rank&, const failed_rank&) = default;
};

/// Ranks have failed while this rank waited in a call: docs/reference/failures.md. All ranks that reach one another
/// report the same failed ranks. The communicator is broken from then on.
class TERRACE_API rank_failed_error : public error {
public:
    /// @param failed by ascending rank   @param waits the operations that this rank was waiting for
    rank_failed_error(std::vector<failed_rank> failed, std::vector<std::string> waits);

    /// Returns the failed ranks, ascending. A rank that the others regard as failed is in this list itself.
    const std::vector<failed_rank>& failed() const noexcept { return failed_; }
    /// Returns the operations this rank was waiting for: "call 12: stage 1 up, step 4, chunk 7: recv from rank 3".
    const std::vector<std::string>& waits() const noexcept { return waits_; }

private:
    std::vector<failed_rank> failed_;
    std::vector<std::string> waits_;
};

/// communicator::shrink would leave fewer than half of the ranks, or half of them without rank 0 of the plan. The
/// others may go on, so this part must not. what() names the ranks that cannot be reached.
class TERRACE_API partitioned_error : public error {
public:
    using error::error;
};

/// A library below Terrace reported an error. The communicator is broken from then on.
class TERRACE_API transport_error : public error {
public:
    /// @param library "mpi", "nccl", "cuda" ...   @param call the function that failed   @param code its error code
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
