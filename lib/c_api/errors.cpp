#include <exception>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include <terrace/version.hpp>

#include "c_api/handles.hpp"

namespace {

struct kept_error {
    std::exception_ptr what;
    std::string text, file, library, call;
    terrace_error_source source{};
    std::vector<terrace::failed_rank> failed;
    std::vector<terrace_failed_rank> failed_for_c;  // pointers into `failed`
};

// Null before the first error of a thread, and after the destruction of the thread's objects. Static objects may still
// make calls then; errors that these keep are never freed.
thread_local kept_error* last_or_null = nullptr;

struct end_of_thread {
    ~end_of_thread() { delete std::exchange(last_or_null, nullptr); }
};
thread_local end_of_thread frees_last;

kept_error& last() {
    if (last_or_null == nullptr) last_or_null = new kept_error;
    static_cast<void>(&frees_last);
    return *last_or_null;
}

terrace_status keep(terrace_status status, const char* text) {
    last().text = text;
    return status;
}

terrace_status keep_current() {
    try {
        throw;
    } catch (const terrace::input_error& e) {
        last().file = e.file();
        last().source.file = last().file.c_str();
        last().source.line = e.line();
        last().source.column = e.column();
        return keep(terrace_input_error, e.what());
    } catch (const terrace::plan_error& e) {
        return keep(terrace_plan_error, e.what());
    } catch (const terrace::usage_error& e) {
        return keep(terrace_usage_error, e.what());
    } catch (const terrace::rank_failed_error& e) {
        last().failed = e.failed();
        for (const terrace::failed_rank& f : last().failed)
            last().failed_for_c.push_back({f.rank, f.host.c_str(), f.noticed.c_str()});
        return keep(terrace_rank_failed_error, e.what());
    } catch (const terrace::partitioned_error& e) {
        return keep(terrace_partitioned_error, e.what());
    } catch (const terrace::timeout_error& e) {
        return keep(terrace_timeout_error, e.what());
    } catch (const terrace::transport_error& e) {
        last().library = e.library();
        last().call = e.call();
        last().source.library = last().library.c_str();
        last().source.call = last().call.c_str();
        last().source.code = e.code();
        return keep(terrace_transport_error, e.what());
    } catch (const terrace::memory_error& e) {
        return keep(terrace_no_memory, e.what());
    } catch (const std::bad_alloc&) {
        return keep(terrace_no_memory, "out of memory");
    } catch (const std::exception& e) {
        return keep(terrace_other_error, e.what());
    } catch (...) {
        return keep(terrace_other_error, "an exception of unknown type");
    }
}

}  // namespace

namespace terrace::detail {

terrace_status keep_error() noexcept {
    try {
        last() = {};
        last().what = std::current_exception();
        return keep_current();
    } catch (...) {
        return terrace_no_memory;  // no memory for the text
    }
}

void rethrow_error(const std::string& who) {
    if (last_or_null != nullptr && last().what) std::rethrow_exception(last().what);
    throw std::runtime_error(who + " has failed");
}

}  // namespace terrace::detail

const char* terrace_last_error(void) { return last_or_null != nullptr ? last().text.c_str() : ""; }
terrace_error_source terrace_last_error_source(void) {
    return last_or_null != nullptr ? last().source : terrace_error_source{};
}

const terrace_failed_rank* terrace_last_failed_ranks(int* count) {
    const bool any = last_or_null != nullptr && !last().failed_for_c.empty();
    if (count) *count = any ? static_cast<int>(last().failed_for_c.size()) : 0;
    return any ? last().failed_for_c.data() : nullptr;
}

const char* terrace_version(void) { return terrace::version(); }

const char* terrace_status_name(int status) {
    constexpr const char* names[] = {"terrace_ok",
                                     "terrace_input_error",
                                     "terrace_plan_error",
                                     "terrace_usage_error",
                                     "terrace_timeout_error",
                                     "terrace_transport_error",
                                     "terrace_no_memory",
                                     "terrace_other_error",
                                     "terrace_rank_failed_error",
                                     "terrace_partitioned_error"};
    return status >= 0 && status < static_cast<int>(std::size(names)) ? names[status] : nullptr;
}
