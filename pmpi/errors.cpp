#include "pmpi/errors.hpp"

#include <mutex>
#include <string>

#include <terrace/error.hpp>

namespace terrace::detail::pmpi {

namespace {

enum kind { usage, timeout, rank_failed, transport, other, kinds };

kind kind_of(const std::exception& e) noexcept {
    if (dynamic_cast<const rank_failed_error*>(&e) != nullptr) return rank_failed;
    if (dynamic_cast<const timeout_error*>(&e) != nullptr) return timeout;
    if (dynamic_cast<const transport_error*>(&e) != nullptr) return transport;
    return dynamic_cast<const usage_error*>(&e) != nullptr ? usage : other;
}

struct error_codes {
    int of_class = MPI_ERR_OTHER;
    int by_kind[kinds]{};

    error_codes() {
        PMPI_Add_error_class(&of_class);
        PMPI_Add_error_string(of_class, "Terrace");
        for (int& code : by_kind) PMPI_Add_error_code(of_class, &code);
    }
};

}  // namespace

// A code has one text, that of its last error. Errors are few, since each leaves its communicator broken.
int report_error(MPI_Comm comm, const std::exception& e) noexcept {
    static std::mutex lock;
    int code = MPI_ERR_OTHER;
    try {
        const std::lock_guard held(lock);
        static const error_codes codes;
        code = codes.by_kind[kind_of(e)];
        std::string text = std::string("Terrace: ") + e.what();
        if (text.size() >= MPI_MAX_ERROR_STRING) text.resize(MPI_MAX_ERROR_STRING - 1);
        PMPI_Add_error_string(code, text.c_str());
    } catch (const std::exception&) {
        // Without memory for a text, only the code is reported.
    }
    PMPI_Comm_call_errhandler(comm, code);
    return code;
}

}  // namespace terrace::detail::pmpi
