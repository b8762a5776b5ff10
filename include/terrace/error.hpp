#pragma once

#include <terrace/export.hpp>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

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

/// The system gave no memory for a call or a window. Where a call needed it, the communicator is broken from then on.
/// what() says how much was wanted, and for what.
class TERRACE_API memory_error : public error {
public:
    /// @param bytes that were wanted   @param use what for: "a window"
    memory_error(std::size_t bytes, const std::string& use);

    std::size_t bytes() const noexcept { return bytes_; }

private:
    std::size_t bytes_;
};

/// What has become of a rank: its process has ended; it is stopped, as by SIGSTOP; or no message gets through to it.
enum class failure : std::uint8_t { died, stopped, unreachable };

/// A rank that has failed.
struct failed_rank {
    int rank = 0;      ///< in the numbering of the communicator that throws
    std::string host;  ///< of the rank
    failure how = failure::died;
    std::string noticed;  ///< by what: "its process has ended"

    friend bool operator==(const failed_rank&, const failed_rank&) = default;
};

/// Ranks have failed while this one waited in a call: docs/reference/failures.md. All ranks that reach one another name
/// the same ones. The communicator is broken from then on.
class TERRACE_API rank_failed_error : public error {
public:
    /// @param failed by ascending rank   @param waits what this rank was waiting for
    rank_failed_error(std::vector<failed_rank> failed, std::vector<std::string> waits);

    /// The ranks that have failed, by ascending rank. A rank that others have given up finds itself among them.
    const std::vector<failed_rank>& failed() const noexcept { return failed_; }
    /// What this rank was waiting for, one operation each: "call 12: stage 1 up, step 4, chunk 7: recv from rank 3".
    const std::vector<std::string>& waits() const noexcept { return waits_; }

private:
    std::vector<failed_rank> failed_;
    std::vector<std::string> waits_;
};

/// communicator::shrink would make a communicator of fewer than half of the ranks, or of half without rank 0 of the
/// plan: the others may go on, and this part must not. what() names the ranks that are out of reach.
class TERRACE_API partitioned_error : public error {
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
